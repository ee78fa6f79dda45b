"""Keeps what AWS answered: rows made, changed where something changed, and ended where nothing is left."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aws.types import EcsService, EcsTask
from guards.text import clean
from instances.models import SeenEvent, SeenService, ServiceInstance, SyncedCluster
from instances.origins import Origins
from instances.owning import Owners

_SERVICE_FIELDS: Final = (
    "arn", "service", "infrastructure", "status", "desired", "running", "pending", "task_definition",
    "answered", "seen_at", "gone_at",
)  # fmt: skip
_INSTANCE_FIELDS: Final = (
    "seen", "image", "digest", "containers", "last_status", "desired_status", "health", "zone",
    "launch_type", "capacity_provider", "address", "host", "started_at", "stopped_at", "stop_code",
    "stopped_reason", "looks", "seen_at",
)  # fmt: skip
_LONGEST_EVENT: Final = 4000


def keep_services(cluster: SyncedCluster, answers: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Insert or change the rows of these ECS services, and add the events that are new."""
    found = [EcsService.from_aws(one) for one in answers if one.get("serviceName")]
    owners = Owners.of(cluster, [one.name for one in found])
    rows = [_service_row(cluster, one, owners, now) for one in found]
    SeenService.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=_SERVICE_FIELDS
    )
    _keep_events(cluster, found, now)


def _service_row(cluster: SyncedCluster, found: EcsService, owners: Owners, now: datetime) -> SeenService:
    service, infrastructure = owners.owner_of(found.name)
    return SeenService(
        cluster=cluster,
        name=found.name,
        arn=found.arn,
        service_id=service,
        infrastructure_id=infrastructure,
        status=found.status,
        desired=found.desired,
        running=found.running,
        pending=found.pending,
        task_definition=found.task_definition,
        answered={key: value for key, value in found.raw.items() if key != "events"},
        first_seen_at=now,
        seen_at=now,
        gone_at=None,
    )


def _keep_events(cluster: SyncedCluster, found: Sequence[EcsService], now: datetime) -> None:
    keys = dict(
        SeenService.objects.filter(cluster=cluster, name__in=[one.name for one in found]).values_list(
            "name", "pk"
        )
    )
    events = {
        (keys[one.name], event.id): SeenEvent(
            seen_id=keys[one.name],
            event=event.id,
            at=event.at or now,
            message=clean(event.message)[:_LONGEST_EVENT],
        )
        for one in found
        for event in one.events
        if event.id
    }
    known = set(
        SeenEvent.objects.filter(
            seen__in=keys.values(), event__in=[event for _, event in events]
        ).values_list("seen", "event")
    )
    SeenEvent.objects.bulk_create(
        [row for key, row in events.items() if key not in known], ignore_conflicts=True
    )


def keep_tasks(cluster: SyncedCluster, answers: Sequence[Mapping[str, Any]], now: datetime) -> None:
    """Insert or change the rows of these ECS tasks; those that look as before are only marked as seen."""
    found = [EcsTask.from_aws(one) for one in answers if one.get("taskArn")]
    arns = [one.arn for one in found]
    known = dict(ServiceInstance.objects.filter(cluster=cluster, arn__in=arns).values_list("arn", "looks"))
    changed = [one for one in found if known.get(one.arn) != looks_of(one)]
    if same := [one.arn for one in found if known.get(one.arn) == looks_of(one)]:
        ServiceInstance.objects.filter(cluster=cluster, arn__in=same).update(seen_at=now)
    services = dict(
        SeenService.objects.filter(
            cluster=cluster, name__in={name for one in changed if (name := service_of(one))}
        ).values_list("name", "pk")
    )
    origins = Origins.of(cluster, [one for one in changed if one.arn not in known])
    rows = [_instance_row(cluster, one, services, origins, now) for one in changed]
    ServiceInstance.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "arn"], update_fields=_INSTANCE_FIELDS
    )


def service_of(task: EcsTask) -> str:
    """The name of the ECS service that a task belongs to; empty for one that was run by itself."""
    group = str(task.raw.get("group") or "")
    return group.removeprefix("service:") if group.startswith("service:") else ""


def looks_of(task: EcsTask) -> str:
    """One word for how a task looks."""
    said = json.dumps(task.raw, sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _instance_row(
    cluster: SyncedCluster, task: EcsTask, services: Mapping[str, int], origins: Origins, now: datetime
) -> ServiceInstance:
    containers = [
        {
            "name": one.name,
            "image": one.image,
            "digest": one.image_digest,
            "status": one.last_status,
            "health": one.health,
            "exit_code": one.exit_code,
            "reason": one.reason,
        }
        for one in task.containers
    ]
    image, digest = next(((one.image, one.image_digest) for one in task.containers), ("", ""))
    origin, execution = origins.origin_of(task)
    raw = task.raw
    return ServiceInstance(
        cluster=cluster,
        seen_id=services.get(service_of(task)),
        arn=task.arn,
        task_id=task.id[:64],
        task_definition=task.task_definition,
        image=image[:512],
        digest=digest[:128],
        containers=containers,
        last_status=task.last_status,
        desired_status=task.desired_status,
        health=task.health[:16],
        zone=str(raw.get("availabilityZone") or "")[:64],
        launch_type=str(raw.get("launchType") or "")[:32],
        capacity_provider=str(raw.get("capacityProviderName") or "")[:255],
        address=_address(raw),
        host=str(raw.get("containerInstanceArn") or "")[:512],
        started_by=task.started_by[:128],
        origin=origin,
        execution_id=execution,
        created_at=task.created_at or now,
        started_at=task.started_at,
        stopped_at=task.stopped_at or (now if task.last_status == "STOPPED" else None),
        stop_code=task.stop_code[:64],
        stopped_reason=clean(task.stopped_reason)[:_LONGEST_EVENT],
        looks=looks_of(task),
        seen_at=now,
    )


def _address(raw: Mapping[str, Any]) -> str | None:
    for attachment in raw.get("attachments") or ():
        for detail in attachment.get("details") or ():
            if detail.get("name") == "privateIPv4Address":
                return str(detail.get("value")) or None
    return None


def known_stopped(cluster: SyncedCluster, arns: Iterable[str]) -> set[str]:
    """Those of these tasks whose end is kept already."""
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(arns), stopped_at__isnull=False)
    return set(rows.values_list("arn", flat=True))


def close(cluster: SyncedCluster, began: datetime, now: datetime) -> None:
    """End what a whole sync has not seen: it stopped more than an hour ago, or its service is gone."""
    SeenService.objects.filter(cluster=cluster, gone_at=None, seen_at__lt=began).update(
        gone_at=now, status="INACTIVE", desired=0, running=0, pending=0
    )
    ServiceInstance.objects.filter(cluster=cluster, stopped_at=None, seen_at__lt=began).update(
        stopped_at=now, last_status="STOPPED", desired_status="STOPPED",
        stopped_reason="It was gone when Slipway looked; AWS tells no reason any more.",
    )  # fmt: skip


def account_of(arn: str) -> str:
    """The account that an ARN names, empty if it names none."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 5 else ""
