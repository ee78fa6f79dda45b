"""Coverage of event queues: the reads of ECS that the events of a queue concern.

Events make the reads early, and queues that receive make them rare. So a queue may concern only what the
owners of its connector may affect anyway.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from django.db.models import F, QuerySet

from connectors.account_claims import ClaimReach, get_claim_reach, list_isolated_connectors
from connectors.models import EventQueue
from connectors.models.event_queues import READ_WINDOW

# An event that has not come so long after its change will not come.
MOST_EVENT_DELAY: Final = timedelta(seconds=10)


@dataclass(frozen=True)
class CoveredReads:
    """Reads of ECS that events may replace: their connector, scope, account and region."""

    connector: int
    scope_path: str
    account: str
    region: str


@dataclass(frozen=True)
class QueueCoverage:
    """A queue, and what its events concern.

    That is all reads of its connector; and those of its account and region in the scope of the connector and
    below, unless either side has an endpoint of its own, which can claim any account. A delegate can claim
    one too, so a queue that it reads concerns its connector only.
    """

    pk: int
    connector: int
    scope_path: str
    account: str
    region: str
    reach: ClaimReach
    last_event_at: datetime | None = None
    """When the last event of ECS was read from the queue."""

    @classmethod
    def of(cls, queue: EventQueue) -> Self:
        """Return the coverage of a queue; its connector and scope should be loaded."""
        connector = queue.connector
        reach = get_claim_reach(connector.spec)
        where = (connector.pk, connector.scope.path, queue.account, queue.region)
        return cls(queue.pk, *where, reach, queue.last_event_at)

    def covers(self, reads: CoveredReads, isolated: Collection[int]) -> bool:
        """Return whether events concern these reads; `isolated` are connectors that share no account."""
        if reads.region != self.region:
            return False
        if reads.connector == self.connector:
            return True
        return (
            self.reach is ClaimReach.VERIFIED
            and reads.connector not in isolated
            and self.account != ""
            and reads.account == self.account
            and f"{reads.scope_path}/".startswith(f"{self.scope_path}/")
        )


def list_coverages(queues: QuerySet[EventQueue]) -> list[QueueCoverage]:
    """Return the coverage of queues, in one query."""
    columns = (
        "pk",
        "connector",
        "connector__scope__path",
        "account",
        "region",
        "connector__spec",
        "last_event_at",
    )
    return [
        QueueCoverage(pk, connector, path, account, region, get_claim_reach(spec), last_event_at)
        for pk, connector, path, account, region, spec, last_event_at in queues.values_list(*columns)
    ]


def list_receiving_coverages(now: datetime) -> list[QueueCoverage]:
    """Return the coverage of the queues whose events arrive.

    A changed connector counts after the next read: until then, the account may be that of another endpoint.
    """
    return list_coverages(
        EventQueue.objects.filter(
            problem="",
            silent_since=None,
            last_event_at__isnull=False,
            read_at__gte=now - READ_WINDOW,
            read_at__gt=F("connector__updated_at"),
        )
    )


def find_coverages(
    reads: Sequence[CoveredReads], coverages: Sequence[QueueCoverage]
) -> dict[CoveredReads, list[QueueCoverage]]:
    """Return the queues that concern each of the reads, without reads of no queue; one query at most."""
    others = {read.connector for read in reads} - {coverage.connector for coverage in coverages}
    # Reads of a connector with a queue are isolated by the coverage of that queue.
    isolated = {coverage.connector for coverage in coverages if coverage.reach is ClaimReach.CONNECTOR}
    if coverages and others:
        isolated |= list_isolated_connectors(others)
    found = {read: [item for item in coverages if item.covers(read, isolated)] for read in reads}
    return {read: covering for read, covering in found.items() if covering}


def select_covered(reads: Sequence[CoveredReads], coverages: Sequence[QueueCoverage]) -> set[CoveredReads]:
    """Return the reads that one of the queues concerns, in one query at most."""
    return set(find_coverages(reads, coverages))


def record_silence(reads: CoveredReads, now: datetime, *, changed_at: datetime | None = None) -> None:
    """Record that something changed although no event came: reads are frequent until the next event.

    With the time of the change, only of queues that were read since without any event.
    """
    rows = EventQueue.objects.filter(region=reads.region, silent_since=None)
    if changed_at is not None:
        rows = rows.filter(last_event_at__lt=changed_at, read_at__gt=changed_at + MOST_EVENT_DELAY)
    queues = list_coverages(rows)
    isolated = list_isolated_connectors([reads.connector])
    silent = [coverage.pk for coverage in queues if coverage.covers(reads, isolated)]
    if silent:
        EventQueue.objects.filter(pk__in=silent).update(silent_since=now)
