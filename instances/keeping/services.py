"""Keeps ECS services and what ECS wrote about them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from instances.columns import document, row_of
from instances.models import SeenEvent, SeenService, SyncedCluster
from instances.owning import Owners
from instances.told import LONGEST_NAME, Told, rows_of

_FIELDS: Final = (
    "arn", "service", "infrastructure", "status", "desired", "running", "pending", "task_definition",
    "answered", "seen_at", "gone_at",
)  # fmt: skip


def keep_services(cluster: SyncedCluster, answer: object, now: datetime) -> None:
    """Insert or change the rows of the ECS services in an answer, and add the events that are new."""
    # A name that comes twice would be written twice by one statement, which PostgreSQL refuses.
    found = {name: one for one in rows_of(answer, "services") if (name := name_of(one))}
    owners = Owners.of(cluster, list(found))
    _ask_again_what_scales(cluster, found)
    rows = [_row(cluster, name, one, owners, now) for name, one in found.items()]
    SeenService.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=_FIELDS
    )
    _keep_events(cluster, found, now)


def _ask_again_what_scales(cluster: SyncedCluster, found: Mapping[str, Told]) -> None:
    """Who has another desired count than before may have been given something that scales it."""
    rows = SeenService.objects.filter(cluster=cluster, name__in=list(found)).exclude(scaling_seen_at=None)
    known = rows.values_list("name", "desired")
    changed = [name for name, desired in known if found[name].number("desiredCount") != desired]
    if changed:
        rows.filter(name__in=changed).update(scaling_seen_at=None)


def name_of(service: Told) -> str:
    return service.text("serviceName", LONGEST_NAME)


def _row(cluster: SyncedCluster, name: str, found: Told, owners: Owners, now: datetime) -> SeenService:
    service, infrastructure = owners.owner_of(name)
    raw = {key: value for key, value in found.raw.items() if key != "events"}
    return row_of(
        SeenService,
        cluster_id=cluster.pk,
        name=name,
        arn=found.text("serviceArn"),
        service_id=service,
        infrastructure_id=infrastructure,
        status=found.text("status"),
        desired=found.number("desiredCount"),
        running=found.number("runningCount"),
        pending=found.number("pendingCount"),
        task_definition=found.text("taskDefinition"),
        answered=document(raw) or {},
        first_seen_at=now,
        seen_at=now,
        gone_at=None,
    )


def _keep_events(cluster: SyncedCluster, found: Mapping[str, Told], now: datetime) -> None:
    rows = SeenService.objects.filter(cluster=cluster, name__in=list(found))
    keys = dict(rows.values_list("name", "pk"))
    written = [
        row_of(
            SeenEvent,
            seen_id=keys[name],
            event=event.text("id", 64),
            at=event.moment("createdAt") or now,
            message=event.text("message", 4000),
        )
        for name, one in found.items()
        for event in one.rows("events")
    ]
    add_events(written)


def add_events(written: Sequence[SeenEvent]) -> None:
    """Add those events that are new: they never change."""
    events = {(row.seen_id, row.event): row for row in written if row.event}
    same = SeenEvent.objects.filter(
        seen__in={seen for seen, _ in events}, event__in=[event for _, event in events]
    )
    known = set(same.values_list("seen", "event"))
    new = [row for key, row in events.items() if key not in known]
    SeenEvent.objects.bulk_create(new, ignore_conflicts=True)
