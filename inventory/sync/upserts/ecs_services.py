"""Upserts of ECS services and their events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, SyncedCluster
from inventory.sync.column_values import build_row, clean_document
from inventory.sync.ecs_payloads import MAX_SERVICE_NAME_LENGTH, AwsPayload, list_payloads
from inventory.sync.owners import EcsServiceOwners
from steps.actions.ecs_service.daemons import is_daemon

_SERVICE_FIELDS: Final = (
    "arn", "service", "infrastructure", "status", "desired", "running", "pending", "task_definition",
    "description", "seen_at", "gone_at",
)  # fmt: skip


def upsert_services(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Insert or update the ECS services in a response, and add new events."""
    # PostgreSQL rejects an upsert that contains the same row twice.
    by_name = {
        name: payload
        for payload in list_payloads(response, "services")
        if (name := read_service_name(payload))
    }
    owners = EcsServiceOwners.of(cluster, list(by_name))
    changes = _find_changed_counts(cluster, by_name)
    EcsServiceRecord.objects.filter(pk__in=changes).update(scaling_seen_at=None)
    rows = [_build_service_row(cluster, name, payload, owners, now) for name, payload in by_name.items()]
    EcsServiceRecord.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["cluster", "name"], update_fields=_SERVICE_FIELDS
    )
    _insert_ecs_events(cluster, by_name, now)
    insert_events([_build_count_event(pk, counts, now) for pk, counts in changes.items()])


def _find_changed_counts(
    cluster: SyncedCluster, by_name: Mapping[str, AwsPayload]
) -> dict[int, tuple[int, int]]:
    """Return the desired counts before and now, by key, where they differ.

    Not those of DAEMON services, whose count follows the container instances.
    """
    rows = EcsServiceRecord.objects.filter(cluster=cluster, name__in=list(by_name), gone_at=None)
    counts = (
        (pk, before, by_name[name].number("desiredCount") or 0)
        for pk, name, before in rows.values_list("pk", "name", "desired")
        if not is_daemon(by_name[name].raw)
    )
    return {pk: (before, now) for pk, before, now in counts if before != now}


def _build_count_event(pk: int, counts: tuple[int, int], now: datetime) -> EcsServiceEvent:
    before, count = counts
    return build_row(
        EcsServiceEvent,
        ecs_service_id=pk,
        kind=EcsServiceEvent.Kind.COUNT,
        event=f"count {now.isoformat()}",
        before=before,
        count=count,
        at=now,
        message=f"The desired count changed from {before} to {count}.",
    )


def read_service_name(service: AwsPayload) -> str:
    return service.text("serviceName", MAX_SERVICE_NAME_LENGTH)


def _build_service_row(
    cluster: SyncedCluster, name: str, payload: AwsPayload, owners: EcsServiceOwners, now: datetime
) -> EcsServiceRecord:
    service, infrastructure = owners.get_owner(name)
    raw = {key: value for key, value in payload.raw.items() if key != "events"}
    return build_row(
        EcsServiceRecord,
        cluster_id=cluster.pk,
        name=name,
        arn=payload.text("serviceArn"),
        service_id=service,
        infrastructure_id=infrastructure,
        status=payload.text("status"),
        desired=payload.number("desiredCount"),
        running=payload.number("runningCount"),
        pending=payload.number("pendingCount"),
        task_definition=payload.text("taskDefinition"),
        description=clean_document(raw) or {},
        first_seen_at=now,
        seen_at=now,
        # AWS describes a deleted service for some time, but no longer lists it.
        gone_at=now if payload.text("status") == "INACTIVE" else None,
    )


def _insert_ecs_events(cluster: SyncedCluster, by_name: Mapping[str, AwsPayload], now: datetime) -> None:
    rows = EcsServiceRecord.objects.filter(cluster=cluster, name__in=list(by_name))
    keys = dict(rows.values_list("name", "pk"))
    events = [
        build_row(
            EcsServiceEvent,
            ecs_service_id=keys[name],
            event=event.text("id", 64),
            at=event.moment("createdAt") or now,
            message=event.text("message", 4000),
        )
        for name, payload in by_name.items()
        for event in payload.rows("events")
    ]
    insert_events(events)


def insert_events(rows: Sequence[EcsServiceEvent]) -> None:
    """Insert the events that are new; events never change."""
    events = {(row.ecs_service_id, row.event): row for row in rows if row.event}
    existing = EcsServiceEvent.objects.filter(
        ecs_service__in={ecs_service for ecs_service, _ in events}, event__in=[event for _, event in events]
    )
    stored = set(existing.values_list("ecs_service", "event"))
    new = [row for key, row in events.items() if key not in stored]
    EcsServiceEvent.objects.bulk_create(new, ignore_conflicts=True)
