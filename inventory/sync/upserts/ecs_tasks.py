"""Upserts of ECS tasks, one service instance each."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.column_values import build_row
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.task_origins import TaskOrigins, parse_service_name
from inventory.sync.upserts.container_instances import create_container_instances

_TASK_FIELDS: Final = (
    "ecs_service", "container_instance", "image", "digest", "containers", "last_status", "desired_status",
    "health", "zone", "launch_type", "capacity_provider", "address", "host", "started_at", "stopped_at",
    "stop_code", "stopped_reason", "fingerprint", "seen_at",
)  # fmt: skip
# The limit of a task definition.
_MAX_CONTAINERS: Final = 100


def upsert_tasks(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Insert or update the ECS tasks in a response; unchanged ones only get a new `seen_at`."""
    by_arn = {arn: task for task in list_payloads(response, "tasks") if (arn := task.text("taskArn"))}
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(by_arn))
    fingerprints = dict(rows.values_list("arn", "fingerprint"))
    changed = {
        arn: task for arn, task in by_arn.items() if fingerprints.get(arn) != compute_task_fingerprint(task)
    }
    if unchanged := by_arn.keys() - changed.keys():
        ServiceInstance.objects.filter(cluster=cluster, arn__in=list(unchanged)).update(seen_at=now)
    names = {name for task in changed.values() if (name := parse_service_name(task))}
    services = dict(
        EcsServiceRecord.objects.filter(cluster=cluster, name__in=names).values_list("name", "pk")
    )
    machines = create_container_instances(
        cluster, [task.text("containerInstanceArn") for task in changed.values()], now
    )
    origins = TaskOrigins.of(cluster, [task for arn, task in changed.items() if arn not in fingerprints])
    ServiceInstance.objects.bulk_create(
        [
            _build_task_row(cluster, arn, task, TaskRelations(services, machines, origins), now)
            for arn, task in changed.items()
        ],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_TASK_FIELDS,
    )


def compute_task_fingerprint(task: AwsPayload) -> str:
    """Return a hash of a described task."""
    text = json.dumps(task.raw, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TaskRelations:
    """The rows that tasks refer to: services by name, container instances by ARN, executions."""

    services: Mapping[str, int]
    container_instances: Mapping[str, int]
    origins: TaskOrigins


def _build_task_row(
    cluster: SyncedCluster, arn: str, task: AwsPayload, relations: TaskRelations, now: datetime
) -> ServiceInstance:
    containers = [_build_container(container) for container in task.rows("containers")[:_MAX_CONTAINERS]]
    first = containers[0] if containers else {"image": "", "digest": ""}
    origin, execution = relations.origins.get_origin(task)
    return build_row(
        ServiceInstance,
        cluster_id=cluster.pk,
        ecs_service_id=relations.services.get(parse_service_name(task)),
        container_instance_id=relations.container_instances.get(task.text("containerInstanceArn")),
        arn=arn,
        task_id=arn.rsplit("/", 1)[-1],
        task_definition=task.text("taskDefinitionArn"),
        image=first["image"],
        digest=first["digest"],
        containers=containers,
        last_status=task.text("lastStatus"),
        desired_status=task.text("desiredStatus"),
        health=task.text("healthStatus"),
        zone=task.text("availabilityZone"),
        launch_type=task.text("launchType"),
        capacity_provider=task.text("capacityProviderName"),
        address=_read_ip_address(task),
        host=task.text("containerInstanceArn"),
        started_by=task.text("startedBy"),
        origin=origin,
        execution_id=execution,
        created_at=task.moment("createdAt") or now,
        started_at=task.moment("startedAt"),
        stopped_at=task.moment("stoppedAt") or (now if task.text("lastStatus") == "STOPPED" else None),
        stop_code=task.text("stopCode"),
        stopped_reason=task.text("stoppedReason", 4000),
        fingerprint=compute_task_fingerprint(task),
        seen_at=now,
    )


def _build_container(container: AwsPayload) -> dict[str, Any]:
    return {
        "name": container.text("name", 255),
        "image": container.text("image"),
        "digest": container.text("imageDigest", 128),
        "status": container.text("lastStatus", 32),
        "health": container.text("healthStatus", 32),
        "exit_code": container.number("exitCode"),
        "reason": container.text("reason", 1024),
    }


def _read_ip_address(task: AwsPayload) -> str:
    details = (detail for attachment in task.rows("attachments") for detail in attachment.rows("details"))
    return next(
        (detail.text("value") for detail in details if detail.text("name") == "privateIPv4Address"), ""
    )


def filter_known_stopped(cluster: SyncedCluster, arns: Iterable[str]) -> set[str]:
    """Return the tasks among these whose end is stored."""
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(arns), stopped_at__isnull=False)
    return set(rows.values_list("arn", flat=True))
