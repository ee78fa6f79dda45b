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
# No task definition has more.
_MAX_CONTAINERS: Final = 100


def upsert_tasks(cluster: SyncedCluster, answer: object, now: datetime) -> None:
    """Insert or change the rows of the ECS tasks in an answer; those that look as before are only marked."""
    found = {arn: one for one in list_payloads(answer, "tasks") if (arn := one.text("taskArn"))}
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(found))
    known = dict(rows.values_list("arn", "fingerprint"))
    changed = {arn: one for arn, one in found.items() if known.get(arn) != compute_task_fingerprint(one)}
    if same := found.keys() - changed.keys():
        ServiceInstance.objects.filter(cluster=cluster, arn__in=list(same)).update(seen_at=now)
    names = {name for one in changed.values() if (name := parse_service_name(one))}
    services = dict(
        EcsServiceRecord.objects.filter(cluster=cluster, name__in=names).values_list("name", "pk")
    )
    machines = create_container_instances(
        cluster, [one.text("containerInstanceArn") for one in changed.values()], now
    )
    origins = TaskOrigins.of(cluster, [one for arn, one in changed.items() if arn not in known])
    ServiceInstance.objects.bulk_create(
        [
            _build_task_row(cluster, arn, one, TaskRelations(services, machines, origins), now)
            for arn, one in changed.items()
        ],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_TASK_FIELDS,
    )


def compute_task_fingerprint(task: AwsPayload) -> str:
    """One word for how a task looks."""
    said = json.dumps(task.raw, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TaskRelations:
    """What the rows of a page of tasks point at: services by name, machines by ARN, executions."""

    services: Mapping[str, int]
    container_instances: Mapping[str, int]
    origins: TaskOrigins


def _build_task_row(
    cluster: SyncedCluster, arn: str, task: AwsPayload, links: TaskRelations, now: datetime
) -> ServiceInstance:
    containers = [_build_container(one) for one in task.rows("containers")[:_MAX_CONTAINERS]]
    first = containers[0] if containers else {"image": "", "digest": ""}
    origin, execution = links.origins.get_origin(task)
    return build_row(
        ServiceInstance,
        cluster_id=cluster.pk,
        ecs_service_id=links.services.get(parse_service_name(task)),
        container_instance_id=links.container_instances.get(task.text("containerInstanceArn")),
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


def _build_container(one: AwsPayload) -> dict[str, Any]:
    return {
        "name": one.text("name", 255),
        "image": one.text("image"),
        "digest": one.text("imageDigest", 128),
        "status": one.text("lastStatus", 32),
        "health": one.text("healthStatus", 32),
        "exit_code": one.number("exitCode"),
        "reason": one.text("reason", 1024),
    }


def _read_ip_address(task: AwsPayload) -> str:
    details = (one for attachment in task.rows("attachments") for one in attachment.rows("details"))
    return next((one.text("value") for one in details if one.text("name") == "privateIPv4Address"), "")


def filter_known_stopped(cluster: SyncedCluster, arns: Iterable[str]) -> set[str]:
    """Those of these tasks whose end is kept already."""
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(arns), stopped_at__isnull=False)
    return set(rows.values_list("arn", flat=True))
