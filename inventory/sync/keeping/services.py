"""Keeps ECS services and what ECS wrote about them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from inventory.models.instances import SeenEvent, SeenService, SyncedCluster
from inventory.sync.columns import document, row_of
from inventory.sync.owning import Owners
from inventory.sync.told import LONGEST_NAME, Told, rows_of

_FIELDS: Final = (
    "arn", "service", "infrastructure", "status", "desired", "running", "pending", "task_definition",
    "answered", "seen_at", "gone_at",
)  # fmt: skip


def keep_services(cluster: SyncedCluster, answer: object, now: datetime) -> None:
    """Insert or change the rows of the ECS services in an answer, and add the events that are new."""
    # A name that comes twice would be written twice by one statement, which PostgreSQL refuses.
    found = {name: one for one in rows_of(answer, "services") if (name := name_of(one))}
    owners = Owners.of(cluster, list(found))
    changes = _changed_counts(cluster, found)
    SeenService.objects.filter(pk__in=changes).update(scaling_seen_at=None)
    rows = [_row(cluster, name, one, owners, now) for name, one in found.items()]
    SeenService.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=_FIELDS
    )
    _keep_events(cluster, found, now)
    add_events([_count_changed(pk, counts, now) for pk, counts in changes.items()])


def _changed_counts(cluster: SyncedCluster, found: Mapping[str, Told]) -> dict[int, tuple[int, int]]:
    """The counts before and now, by key, where they differ; such a one may have been given what scales it."""
    rows = SeenService.objects.filter(cluster=cluster, name__in=list(found), gone_at=None)
    counts = (
        (pk, before, found[name].number("desiredCount") or 0)
        for pk, name, before in rows.values_list("pk", "name", "desired")
    )
    return {pk: (before, now) for pk, before, now in counts if before != now}


def _count_changed(pk: int, counts: tuple[int, int], now: datetime) -> SeenEvent:
    before, count = counts
    return row_of(
        SeenEvent,
        seen_id=pk,
        kind=SeenEvent.Kind.COUNT,
        event=f"count {now.isoformat()}",
        before=before,
        count=count,
        at=now,
        message=f"The desired count went from {before} to {count}.",
    )


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
