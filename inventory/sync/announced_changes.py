"""Announced changes: events of AWS become due reads of single services and tasks.

An event decides nothing. It names what sync reads next, and many events of one service share one read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from connectors.specs.aws import parse_aws_spec
from delegates.event_queues.coverage import (
    CoveredReads,
    QueueCoverage,
    list_receiving_coverages,
    record_silence,
    select_covered,
)
from delegates.event_queues.events import ServiceEvent
from inventory.models.changes import AnnouncedChange
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.upserts.ecs_tasks import parse_service_name

# Clocks differ, and a read may be older than the event before it.
CLOCK_TOLERANCE: Final = timedelta(seconds=10)
# A read shows an event within seconds; a version that no read shows was not that of ECS.
MOST_REREADS_FOR: Final = timedelta(seconds=60)
# Beyond, a whole sync is cheaper.
MOST_CHANGES: Final = 1000
# On average, reads of changes make a call in this time for each cluster.
SECONDS_PER_CALL: Final = 12
_SPACINGS: Final = (timedelta(seconds=10), timedelta(seconds=30))


def list_covered_clusters(clusters: Sequence[SyncedCluster], now: datetime) -> set[int]:
    """Return the keys of the clusters whose events arrive; two queries at most."""
    if not clusters:
        return set()
    reads = {cluster.pk: _build_reads(cluster) for cluster in clusters}
    covered = select_covered(list(reads.values()), list_receiving_coverages(now))
    return {pk for pk, item in reads.items() if item in covered}


def _build_reads(cluster: SyncedCluster) -> CoveredReads:
    connector = cluster.connector
    return CoveredReads(connector.pk, connector.scope.path, cluster.account, cluster.region)


def record_events(coverage: QueueCoverage, events: Sequence[ServiceEvent], now: datetime) -> list[int]:
    """Record the changes of synced clusters, and return the keys of the clusters that are due for them.

    An event that a read already shows changes nothing.
    """
    by_cluster: dict[str, list[ServiceEvent]] = defaultdict(list)
    for event in events:
        by_cluster[event.cluster].append(event)
    names = Q()
    for name in by_cluster:
        names |= Q(cluster=name) | Q(cluster__endswith=f"/{name}")
    rows = SyncedCluster.objects.filter(names, region=coverage.region, due_at__isnull=False)
    clusters = list(rows.select_related("connector__scope").order_by("pk"))
    covered = select_covered([_build_reads(cluster) for cluster in clusters], [coverage])
    return [
        cluster.pk
        for cluster in clusters
        if _build_reads(cluster) in covered
        and _record(cluster, by_cluster[cluster.cluster.rpartition("/")[2]], now)
    ]


def _record(cluster: SyncedCluster, events: Iterable[ServiceEvent], now: datetime) -> bool:
    """Record the new events of one cluster, and return whether it is due now."""
    versions: dict[tuple[str, str], int] = {}
    for event in _drop_known_events(cluster, list(events)):
        key = event.service, event.task
        versions[key] = max(event.version, versions.get(key, 0))
    return bool(versions) and mark_changes(cluster, versions, now)


def mark_changes(cluster: SyncedCluster, versions: Mapping[tuple[str, str], int], now: datetime) -> bool:
    """Mark services and tasks as changed, and return whether the cluster is due now.

    `versions` has the version of a task by service and ARN; zero for a service with an empty ARN.
    """
    if AnnouncedChange.objects.filter(cluster=cluster).count() > MOST_CHANGES:
        AnnouncedChange.objects.filter(cluster=cluster).delete()
        SyncedCluster.objects.filter(pk=cluster.pk).update(described_at=None, listed_at=None)
    AnnouncedChange.objects.bulk_create(
        [
            AnnouncedChange(cluster=cluster, service=service, task=task, version=version, first_marked_at=now)
            for (service, task), version in sorted(versions.items())
        ],
        update_conflicts=True,
        unique_fields=["cluster", "service", "task"],
        update_fields=["version", "read_from"],
    )
    next_at = max(now, cluster.synced_at + compute_spacing(cluster.calls)) if cluster.synced_at else now
    waiting = SyncedCluster.objects.filter(pk=cluster.pk, cursor__isnull=True, failures=0)
    waiting.filter(due_at__gt=next_at).update(due_at=next_at)
    return next_at <= now


def compute_spacing(calls: int) -> timedelta:
    """Return the time between a sync of so many calls and the next one for changes."""
    shortest, longest = _SPACINGS
    return max(shortest, min(timedelta(seconds=SECONDS_PER_CALL * calls), longest))


def _drop_known_events(cluster: SyncedCluster, events: Sequence[ServiceEvent]) -> list[ServiceEvent]:
    """Return the events that no read shows: late and repeated ones are left out."""
    names, tasks = {event.service for event in events}, {event.task for event in events if event.task}
    services = EcsServiceRecord.objects.filter(cluster=cluster, name__in=names)
    read_at = dict(services.values_list("name", "seen_at"))
    instances = ServiceInstance.objects.filter(cluster=cluster, arn__in=tasks)
    versions = dict(instances.values_list("arn", "version"))
    marked = AnnouncedChange.objects.filter(cluster=cluster, task__in=tasks, read_from=None)
    pending = dict(marked.values_list("task", "version"))
    return [
        event
        for event in events
        if not (
            _is_read(event, versions, cluster.listed_at if event.task else read_at.get(event.service))
            or 0 < event.version <= pending.get(event.task, 0)
        )
    ]


def _is_read(event: ServiceEvent, versions: Mapping[str, int], last_read: datetime | None) -> bool:
    """Return whether a read shows an event: by the version of its task, or by its time."""
    if event.version and (version := versions.get(event.task)):
        return version >= event.version
    return last_read is not None and event.at < last_read - CLOCK_TOLERANCE


def claim_changes(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Assign the changes to a sync that starts now, and return their services."""
    changes = AnnouncedChange.objects.filter(cluster=cluster)
    changes.update(read_from=now)
    return sorted(set(changes.filter(read_from=now).values_list("service", flat=True)))


def list_changed_tasks(cluster: SyncedCluster, _: datetime) -> list[str]:
    """Return the ARNs of the changed tasks that the present sync reads."""
    changes = AnnouncedChange.objects.filter(cluster=cluster, read_from__isnull=False)
    return list(changes.exclude(task="").order_by("task").values_list("task", flat=True))


def end_changes(cluster: SyncedCluster, started_at: datetime, now: datetime) -> bool:
    """Delete the changes that a sync has read, and return whether others wait.

    One whose task was read in an older version is read again: the read was older than the event.
    """
    changes = AnnouncedChange.objects.filter(cluster=cluster)
    own = list(changes.filter(read_from=started_at))
    versions = _read_versions(cluster, [change.task for change in own if change.task])
    read = [
        change.pk
        for change in own
        if versions.get(change.task, change.version) >= change.version
        or change.first_marked_at < now - MOST_REREADS_FOR
    ]
    changes.filter(pk__in=read, read_from=started_at).delete()
    return changes.exists()


def _read_versions(cluster: SyncedCluster, tasks: Collection[str]) -> dict[str, int]:
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=tasks, version__gt=0)
    return dict(rows.values_list("arn", "version"))


def record_unannounced_tasks(cluster: SyncedCluster, response: Mapping[str, Any], now: datetime) -> None:
    """Record that events are missing if a described task is new, but started long before.

    Call it before the tasks are stored. Delegates could claim such a task, so they prove nothing.
    """
    since = cluster.listed_at
    if since is None or not cluster.is_event_driven or parse_aws_spec(cluster.connector.spec).is_remote:
        return
    arns = [
        task.text("taskArn")
        for task in list_payloads(response, "tasks")
        if _is_created_between(task, since, now - MOST_REREADS_FOR) and parse_service_name(task)
    ]
    known = ServiceInstance.objects.filter(cluster=cluster, arn__in=arns)
    announced = AnnouncedChange.objects.filter(cluster=cluster, task__in=arns)
    if set(arns) - {*known.values_list("arn", flat=True), *announced.values_list("task", flat=True)}:
        record_silence(_build_reads(cluster), now)


def _is_created_between(task: AwsPayload, since: datetime, until: datetime) -> bool:
    created_at = task.moment("createdAt")
    return created_at is not None and since < created_at < until
