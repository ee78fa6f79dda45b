"""Keeps ECS tasks: one service instance each."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from inventory.models.instances import SeenService, ServiceInstance, SyncedCluster
from inventory.sync.columns import row_of
from inventory.sync.keeping.machines import enter_machines
from inventory.sync.origins import Origins, service_of
from inventory.sync.told import Told, rows_of

_FIELDS: Final = (
    "seen", "container_instance", "image", "digest", "containers", "last_status", "desired_status", "health",
    "zone",    "launch_type", "capacity_provider", "address", "host", "started_at", "stopped_at", "stop_code",
    "stopped_reason", "looks", "seen_at",
)  # fmt: skip
# No task definition has more.
_MOST_CONTAINERS: Final = 100


def keep_tasks(cluster: SyncedCluster, answer: object, now: datetime) -> None:
    """Insert or change the rows of the ECS tasks in an answer; those that look as before are only marked."""
    found = {arn: one for one in rows_of(answer, "tasks") if (arn := one.text("taskArn"))}
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(found))
    known = dict(rows.values_list("arn", "looks"))
    changed = {arn: one for arn, one in found.items() if known.get(arn) != looks_of(one)}
    if same := found.keys() - changed.keys():
        ServiceInstance.objects.filter(cluster=cluster, arn__in=list(same)).update(seen_at=now)
    names = {name for one in changed.values() if (name := service_of(one))}
    services = dict(SeenService.objects.filter(cluster=cluster, name__in=names).values_list("name", "pk"))
    machines = enter_machines(cluster, [one.text("containerInstanceArn") for one in changed.values()], now)
    origins = Origins.of(cluster, [one for arn, one in changed.items() if arn not in known])
    ServiceInstance.objects.bulk_create(
        [_row(cluster, arn, one, Links(services, machines, origins), now) for arn, one in changed.items()],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_FIELDS,
    )


def looks_of(task: Told) -> str:
    """One word for how a task looks."""
    said = json.dumps(task.raw, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Links:
    """What the rows of a page of tasks point at: services by name, machines by ARN, executions."""

    services: Mapping[str, int]
    machines: Mapping[str, int]
    origins: Origins


def _row(cluster: SyncedCluster, arn: str, task: Told, links: Links, now: datetime) -> ServiceInstance:
    containers = [_container(one) for one in task.rows("containers")[:_MOST_CONTAINERS]]
    first = containers[0] if containers else {"image": "", "digest": ""}
    origin, execution = links.origins.origin_of(task)
    return row_of(
        ServiceInstance,
        cluster_id=cluster.pk,
        seen_id=links.services.get(service_of(task)),
        container_instance_id=links.machines.get(task.text("containerInstanceArn")),
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
        address=_address(task),
        host=task.text("containerInstanceArn"),
        started_by=task.text("startedBy"),
        origin=origin,
        execution_id=execution,
        created_at=task.moment("createdAt") or now,
        started_at=task.moment("startedAt"),
        stopped_at=task.moment("stoppedAt") or (now if task.text("lastStatus") == "STOPPED" else None),
        stop_code=task.text("stopCode"),
        stopped_reason=task.text("stoppedReason", 4000),
        looks=looks_of(task),
        seen_at=now,
    )


def _container(one: Told) -> dict[str, Any]:
    return {
        "name": one.text("name", 255),
        "image": one.text("image"),
        "digest": one.text("imageDigest", 128),
        "status": one.text("lastStatus", 32),
        "health": one.text("healthStatus", 32),
        "exit_code": one.number("exitCode"),
        "reason": one.text("reason", 1024),
    }


def _address(task: Told) -> str:
    details = (one for attachment in task.rows("attachments") for one in attachment.rows("details"))
    return next((one.text("value") for one in details if one.text("name") == "privateIPv4Address"), "")


def known_stopped(cluster: SyncedCluster, arns: Iterable[str]) -> set[str]:
    """Those of these tasks whose end is kept already."""
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(arns), stopped_at__isnull=False)
    return set(rows.values_list("arn", flat=True))
