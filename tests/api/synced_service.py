"""What sync would have seen of a world: one ECS service with one task on one machine."""

import json

from django.utils import timezone

from catalog.models import Infrastructure, Service
from deployments.models import Execution
from inventory.models.adoption import Adoption
from inventory.models.changes import AnnouncedChange
from inventory.models.daemons import EcsDaemon
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison, TaskDefinitionRevision
from inventory.models.instances import (
    ContainerInstance,
    EcsServiceEvent,
    EcsServiceRecord,
    ServiceInstance,
    SyncedCluster,
    SyncPause,
)

TAKEN_OVER = {
    "EcsTaskDefinition": {
        "family": "a",
        "containerDefinitions": [{"name": "app", "image": "a:1", "memory": 128}],
    },
    "EcsServiceDefinition": {"serviceName": "a", "desiredCount": 1},
}


def create_synced_rows(service: Service, place: Infrastructure, execution: Execution, canary: str) -> None:
    """Create the rows of one synced ECS service with one task on one machine."""
    now = timezone.now()
    cluster = SyncedCluster.objects.create(
        connector=place.connector, region=place.region, cluster=place.cluster, last_used_at=now, due_at=now
    )
    record = EcsServiceRecord.objects.create(
        cluster=cluster,
        name=canary,
        arn=f"arn:aws:ecs:us-east-1:123456789012:service/demo/{canary}",
        service=service,
        infrastructure=place,
        status="ACTIVE",
        first_seen_at=now,
        seen_at=now,
    )
    create_drift_rows(record, execution, canary)
    EcsServiceEvent.objects.create(ecs_service=record, event="a", at=now, message=canary)
    SyncPause.objects.get_or_create(
        key=f"a failing account of {place.region}",
        defaults={"paused_until": now, "failed_at": now, "failure": "a"},
    )
    EcsDaemon.objects.create(
        cluster=cluster,
        name=canary,
        arn=f"arn:aws:ecs:us-east-1:123456789012:daemon/demo/{canary}",
        first_seen_at=now,
        seen_at=now,
    )
    AnnouncedChange.objects.create(cluster=cluster, service=canary, first_marked_at=now)
    machine = ContainerInstance.objects.create(
        cluster=cluster,
        arn=f"arn:aws:ecs:us-east-1:123456789012:container-instance/demo/{canary}",
        ec2_instance="i-0a",
        seen_at=now,
    )
    ServiceInstance.objects.create(
        cluster=cluster,
        ecs_service=record,
        arn=f"arn:aws:ecs:us-east-1:123456789012:task/demo/{canary}",
        task_id=canary,
        task_definition="arn:aws:ecs:us-east-1:123456789012:task-definition/app:1",
        image=canary,
        container_instance=machine,
        last_status="RUNNING",
        desired_status="RUNNING",
        execution=execution,
        created_at=now,
        fingerprint="a",
        seen_at=now,
    )


def create_drift_rows(record: EcsServiceRecord, execution: Execution, canary: str) -> None:
    """Create drift of the ECS service and the adoption of another one."""
    now = timezone.now()
    ClusterDriftScan.objects.create(cluster=record.cluster, due_at=now)
    TaskDefinitionRevision.objects.get_or_create(
        arn=f"arn:{canary}", defaults={"content": "{}", "used_at": now}
    )
    comparison = DriftComparison.objects.create(
        ecs_service=record, state=DriftComparison.State.DRIFTED, execution=execution, compared_at=now
    )
    Drift.objects.create(
        comparison=comparison,
        document="EcsServiceDefinition",
        path="enableExecuteCommand",
        desired=None,
        actual=canary,
        fingerprint="a",
        attribution=canary,
        detected_at=now,
    )
    foreign_record = EcsServiceRecord.objects.create(
        cluster=record.cluster,
        name="theirs",
        arn=f"{record.arn}-theirs",
        status="ACTIVE",
        desired=1,
        description={"serviceName": "theirs", "desiredCount": 1},
        first_seen_at=now,
        seen_at=now,
    )
    Adoption.objects.create(
        infrastructure=record.infrastructure,
        ecs_service=foreign_record,
        state=Adoption.State.READY,
        documents=json.dumps(TAKEN_OVER),
        requested_at=now,
    )
