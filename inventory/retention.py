"""Retention periods of inventory rows: ECS tasks and services, events, drift, adoptions, delegate tasks."""

from datetime import timedelta

from delegates.retention import ENDED_TASKS
from inventory.drift.drift_scan import DriftScan
from inventory.models.adoption import Adoption
from inventory.models.daemons import EcsDaemon
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

# A scan through a delegate is hundreds of tasks a minute: long enough to see why one has failed.
DELEGATE_TASK_RETENTION = timedelta(minutes=15)

STOPPED_TASK_RETENTION = RetentionRule(
    "Stopped ECS tasks",
    ServiceInstance.objects.all(),
    "stopped_at",
    setting="SLIPWAY_KEEP_STOPPED_TASKS_DAYS",
)
INSTANCE_RETENTION = (
    RetentionRule(
        "Unused clusters",
        filter_unused_clusters(),
        "last_used_at",
        IDLE_CLUSTER_RETENTION,
        clear={"due_at": None},
    ),
    RetentionRule(
        "Delegate tasks of instance sync",
        ENDED_TASKS.filter(owner=SyncScan.OWNER),
        "finished_at",
        DELEGATE_TASK_RETENTION,
    ),
    STOPPED_TASK_RETENTION,
    RetentionRule(
        "ECS service events", EcsServiceEvent.objects.all(), "at", setting="SLIPWAY_KEEP_ECS_EVENTS_DAYS"
    ),
    RetentionRule(
        "Deleted ECS services",
        EcsServiceRecord.objects.filter(instances=None, events=None),
        "gone_at",
        timedelta(days=90),
    ),
    # A machine without tasks is described again as soon as one starts.
    RetentionRule(
        "Container instances", ContainerInstance.objects.filter(instances=None), "seen_at", timedelta(days=1)
    ),
    RetentionRule("Deleted daemons", EcsDaemon.objects.all(), "gone_at", timedelta(days=90)),
    RetentionRule("Pauses of instance sync", SyncPause.objects.all(), "paused_until", timedelta(days=1)),
)

DRIFT_RETENTION = (
    RetentionRule(
        "Delegate tasks of drift detection",
        ENDED_TASKS.filter(owner=DriftScan.OWNER),
        "finished_at",
        DELEGATE_TASK_RETENTION,
    ),
    RetentionRule("Resolved drift", Drift.objects.all(), "resolved_at", setting="SLIPWAY_KEEP_DRIFT_DAYS"),
    RetentionRule(
        "Task definition revisions", TaskDefinitionRevision.objects.all(), "used_at", timedelta(days=30)
    ),
    # An unconfirmed adoption contains values of environment variables.
    RetentionRule(
        "Unconfirmed adoptions",
        Adoption.objects.exclude(state=Adoption.State.ADOPTED),
        "requested_at",
        timedelta(days=1),
    ),
)
