"""Retention periods of inventory rows: ECS tasks and services, events, drift, adoptions, delegate tasks."""

from datetime import timedelta

from delegates.retention import ENDED_TASKS
from inventory.drift.drift_scan import DriftScan
from inventory.models.adoption import Adoption
from inventory.models.drift import Drift, TaskDefinitionRevision
from inventory.models.instances import (
    ContainerInstance,
    EcsServiceEvent,
    EcsServiceRecord,
    ServiceInstance,
    SyncPause,
)
from inventory.sync.clusters import IDLE_CLUSTER_RETENTION, filter_unused_clusters
from inventory.sync.sync_scan import SyncScan
from web.retention import RetentionRule

STOPPED_TASK_RETENTION = timedelta(days=30)
# A scan through a delegate is hundreds of tasks a minute: long enough to see why one has failed.
DELEGATE_TASK_RETENTION = timedelta(minutes=15)

INSTANCE_RETENTION = (
    RetentionRule(filter_unused_clusters(), "last_used_at", IDLE_CLUSTER_RETENTION, clear={"due_at": None}),
    RetentionRule(ENDED_TASKS.filter(owner=SyncScan.OWNER), "finished_at", DELEGATE_TASK_RETENTION),
    RetentionRule(ServiceInstance.objects.all(), "stopped_at", STOPPED_TASK_RETENTION),
    RetentionRule(EcsServiceEvent.objects.all(), "at", timedelta(days=90)),
    RetentionRule(
        EcsServiceRecord.objects.filter(instances=None, events=None), "gone_at", timedelta(days=90)
    ),
    # A machine without tasks is described again as soon as one starts.
    RetentionRule(ContainerInstance.objects.filter(instances=None), "seen_at", timedelta(days=1)),
    RetentionRule(SyncPause.objects.all(), "paused_until", timedelta(days=1)),
)

DRIFT_RETENTION = (
    RetentionRule(ENDED_TASKS.filter(owner=DriftScan.OWNER), "finished_at", DELEGATE_TASK_RETENTION),
    RetentionRule(Drift.objects.all(), "resolved_at", timedelta(days=90)),
    RetentionRule(TaskDefinitionRevision.objects.all(), "used_at", timedelta(days=30)),
    # An unconfirmed adoption contains values of environment variables.
    RetentionRule(Adoption.objects.exclude(state=Adoption.State.ADOPTED), "requested_at", timedelta(days=1)),
)
