"""Delegates as lists and documents show them, with absences and tokens in use."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from delegates.connectivity import (
    Connectivity,
    build_away_filter,
    build_connected_filter,
    build_connectivity_case,
    compute_delegate_status,
    compute_instance_status,
)
from delegates.models import Delegate, DelegateEvent, DelegateInstance, DelegateTask, DelegateToken
from delegates.queries.differences import list_differences
from delegates.releases import find_unsupported_since, list_outdated_versions
from rbac.models import Scope
from rbac.policy import Principal, build_below_filter, filter_visible

VIEW = "core_delegate_view"
Kind = DelegateEvent.Kind
# Instances of these statuses count among those that a delegate should have.
EXPECTED_STATUSES = (DelegateInstance.Status.REGISTERED, DelegateInstance.Status.DRAINING)
PRESENT_STATUSES = (Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING)


@dataclass(frozen=True)
class InstanceFacts:
    """Facts of one instance at one moment; `running` counts its leased tasks."""

    instance: DelegateInstance
    status: str
    running: int


@dataclass(frozen=True)
class DelegateFacts:
    """Facts of one delegate at one moment for a row of the list; equal facts render equally."""

    pk: int
    name: str
    scope_id: int
    scope: str
    description: str
    is_built_in: bool
    status: str
    reason: str
    tags: tuple[str, ...]
    last_heartbeat_at: datetime | None
    connections: tuple[str, ...]
    versions: tuple[str, ...]
    connected: int
    expected: int
    capacity: int
    running: int
    differences: tuple[str, ...]
    unsupported_since: date | None


def list_visible_delegates(
    principal: Principal, scope: Scope | None, delegates: QuerySet[Delegate] | None = None
) -> QuerySet[Delegate]:
    """Return the delegates visible in a scope: its own, those below and usable ones above (R053)."""
    candidates = Delegate.objects.all() if delegates is None else delegates
    if scope is None:
        return candidates.none()
    above = Q(scope__path__in=scope.ancestor_paths())
    return filter_visible(principal, VIEW, candidates).filter(build_below_filter(scope) | above)


def filter_by_status(delegates: QuerySet[Delegate], status: str, now: datetime) -> QuerySet[Delegate]:
    """Filter by a status of `Connectivity`; an empty one is any but ARCHIVED."""
    if not status:
        return delegates.filter(archived_at=None)
    return delegates.alias(connectivity=build_connectivity_case(now)).filter(connectivity=status)


def filter_outdated(delegates: QuerySet[Delegate], now: datetime) -> QuerySet[Delegate]:
    """Filter by instances whose release is no longer supported."""
    versions = list_outdated_versions(now.astimezone(UTC).date())
    outdated = DelegateInstance.objects.filter(version__in=versions, status__in=EXPECTED_STATUSES)
    return delegates.filter(is_built_in=False, pk__in=outdated.values("delegate"))


def filter_by_tag(delegates: QuerySet[Delegate], tag: str, now: datetime) -> QuerySet[Delegate]:
    """Filter by a selector `tag` of any source, ignoring case."""
    keys = [
        delegate.pk
        for delegate in prefetch_instances(delegates).defer("spec", "description")
        if tag.casefold()
        in {selector.casefold() for selector in list_selectable_tags(delegate, delegate.instances.all(), now)}
    ]
    return delegates.filter(pk__in=keys)


def prefetch_instances(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    """Return delegates with scope and instances, in three queries."""
    newest = (
        DelegateInstance.objects.select_related("token")
        .defer("token__value")
        .order_by("-registered_at", "pk")
    )
    return delegates.select_related("scope").prefetch_related(Prefetch("instances", newest))


def list_selectable_tags(
    delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime
) -> tuple[str, ...]:
    """Return the names for selectors: delegate names, user tags, and tags of connected instances (N10)."""
    reported = [
        tag
        for instance in instances
        if compute_instance_status(instance, now) in PRESENT_STATUSES
        for tag in instance.tags
    ]
    return tuple(dict.fromkeys([*delegate.tags, *map(str, reported), delegate.name]))


def list_delegate_facts(delegates: Iterable[Delegate], now: datetime | None = None) -> list[DelegateFacts]:
    """Return the facts of delegates from `prefetch_instances`; one more query counts running tasks."""
    rows = list(delegates)
    running = count_running_tasks(instance.pk for delegate in rows for instance in delegate.instances.all())
    ends = list_last_ends(rows)
    return [
        build_delegate_facts(delegate, running, now or timezone.now(), ends.get(delegate.pk))
        for delegate in rows
    ]


def list_instance_facts(delegate: Delegate, running: dict[int, int], now: datetime) -> list[InstanceFacts]:
    """Return the instances of a delegate, newest first, deleted ones last. `running` is by instance."""
    instances = delegate.instances.all()
    facts = [
        InstanceFacts(instance, compute_instance_status(instance, now), running.get(instance.pk, 0))
        for instance in instances
    ]
    return sorted(facts, key=lambda fact: fact.instance.status == DelegateInstance.Status.GONE)


def count_running_tasks(instances: Iterable[int]) -> dict[int, int]:
    """Return the number of running tasks of each instance."""
    started = DelegateTask.objects.filter(status=DelegateTask.Status.STARTED, instance__in=list(instances))
    counted = started.values_list("instance_id").annotate(number=Count("pk")).order_by()
    return {pk: number for pk, number in counted if pk is not None}


def build_last_end_subquery() -> Subquery:
    """Return the key of each delegate's last event that refused it or ended its session."""
    events = DelegateEvent.objects.filter(
        scope=OuterRef("scope"), name=OuterRef("name"), kind__in=(Kind.REFUSED, Kind.SESSION_ENDED)
    )
    return Subquery(events.order_by("-at").values("pk")[:1])


def list_last_ends(delegates: Iterable[Delegate]) -> dict[int, DelegateEvent]:
    """Return the last time that each delegate was refused, or lost its session, by delegate; in one query."""
    annotated = Delegate.objects.filter(pk__in=[delegate.pk for delegate in delegates]).annotate(
        end=build_last_end_subquery()
    )
    events = DelegateEvent.objects.filter(pk__in=annotated.values("end")).only("scope", "name", "at", "text")
    by_name = {(event.scope_id, event.name): event for event in events}
    return {
        delegate.pk: by_name[key]
        for delegate in delegates
        if (key := (delegate.scope_id, delegate.name)) in by_name
    }


def build_delegate_facts(
    delegate: Delegate, running: dict[int, int], now: datetime, end: DelegateEvent | None = None
) -> DelegateFacts:
    """Return a delegate's facts; `running` counts tasks by instance, `end` is from `list_last_ends`."""
    instances = list(delegate.instances.all())
    status = compute_delegate_status(delegate, instances, now)
    expected = [instance for instance in instances if instance.status in EXPECTED_STATUSES]
    present_instances = [
        instance for instance in expected if compute_instance_status(instance, now) in PRESENT_STATUSES
    ]
    last_heartbeat_at = get_last_heartbeat(instances)
    return DelegateFacts(
        pk=delegate.pk,
        name=delegate.name,
        scope_id=delegate.scope_id,
        scope=delegate.scope.path,
        description=delegate.description,
        is_built_in=delegate.is_built_in,
        status=status.value,
        reason=describe_status(status, expected, describe_end(end, last_heartbeat_at)),
        tags=list_selectable_tags(delegate, instances, now),
        last_heartbeat_at=last_heartbeat_at,
        connections=tuple(sorted({instance.get_connection_display() for instance in present_instances})),
        versions=tuple(
            sorted({instance.version for instance in present_instances or expected if instance.version})
        ),
        connected=len(present_instances),
        expected=len(expected),
        capacity=sum(instance.capacity for instance in present_instances),
        running=sum(running.get(instance.pk, 0) for instance in instances),
        differences=list_differences(present_instances),
        unsupported_since=find_unsupported_since(
            (instance.version for instance in expected), now.astimezone(UTC).date()
        ),
    )


def get_last_heartbeat(instances: Iterable[DelegateInstance]) -> datetime | None:
    """Return the time of the last heartbeat of these instances."""
    return max(
        (instance.last_heartbeat_at for instance in instances if instance.last_heartbeat_at), default=None
    )


def describe_end(end: DelegateEvent | None, last_heartbeat_at: datetime | None) -> str:
    """Return the sentence about an end without later contact."""
    return "" if end is None or (last_heartbeat_at is not None and end.at < last_heartbeat_at) else end.text


def describe_status(status: Connectivity, expected: list[DelegateInstance], end: str = "") -> str:
    """Return the reason why a delegate takes no tasks, or an empty text. `end` is its last end."""
    if end and status in (Connectivity.DISCONNECTED, Connectivity.NEVER_CONTACTED):
        return end
    if status == Connectivity.LATE and any(instance.suspect_since for instance in expected):
        return "Its socket closed: it gets no new tasks until it is connected again."
    if status == Connectivity.DISCONNECTED and not expected:
        return "Every instance has signed off or was lost."
    return REASONS.get(status, "")


REASONS = {
    Connectivity.LATE: "A heartbeat is overdue.",
    Connectivity.DISCONNECTED: "No heartbeat for 150 seconds.",
    Connectivity.NEVER_CONTACTED: "No instance has registered yet.",
    Connectivity.DRAINING: "It is draining: it finishes its tasks and accepts no new ones.",
    Connectivity.PENDING_APPROVAL: "It needs approval before it gets tasks.",
    Connectivity.REJECTED: "It was rejected.",
    Connectivity.DISABLED: "It was disabled.",
    Connectivity.ARCHIVED: "It was away for long. It returns once an instance registers.",
}


@dataclass(frozen=True)
class AwayDelegate:
    """Late or disconnected delegate with the reason in the words of `DelegateFacts`."""

    pk: int
    name: str
    status: str
    reason: str
    last_heartbeat_at: datetime | None


@dataclass(frozen=True)
class DelegatePresence:
    """Numbers of delegates and connected delegates, with some disconnected ones."""

    total: int
    connected: int
    away: list[AwayDelegate]


def count_presence(delegates: QuerySet[Delegate], now: datetime, most: int) -> DelegatePresence:
    """Count these delegates, with the names of at most `most` disconnected ones; four queries in all."""
    connected = Count("pk", filter=build_connected_filter(now))
    return DelegatePresence(
        **delegates.aggregate(total=Count("pk"), connected=connected), away=_list_away(delegates, now, most)
    )


def _list_away(delegates: QuerySet[Delegate], now: datetime, most: int) -> list[AwayDelegate]:
    instances = DelegateInstance.objects.only("delegate", "status", "suspect_since", "last_heartbeat_at")
    rows = (
        delegates.filter(build_away_filter(now))
        .only("name", "admission", "draining", "archived_at")
        .annotate(end=build_last_end_subquery())
    )
    away_delegates = list(
        rows.order_by("name", "pk").prefetch_related(Prefetch("instances", instances))[:most]
    )
    keys = [delegate.end for delegate in away_delegates if delegate.end]
    ends = DelegateEvent.objects.only("at", "text").in_bulk(keys) if keys else {}
    return [_build_away_delegate(delegate, now, ends.get(delegate.end)) for delegate in away_delegates]


def _build_away_delegate(delegate: Delegate, now: datetime, end: DelegateEvent | None) -> AwayDelegate:
    instances = list(delegate.instances.all())
    status, last_heartbeat_at = (
        compute_delegate_status(delegate, instances, now),
        get_last_heartbeat(instances),
    )
    expected = [instance for instance in instances if instance.status in EXPECTED_STATUSES]
    reason = describe_status(status, expected, describe_end(end, last_heartbeat_at))
    return AwayDelegate(delegate.pk, delegate.name, status.value, reason, last_heartbeat_at)


# After this time without a registration the delegate most likely needs help.
CONNECT_TIMEOUT = timedelta(seconds=60)
MAX_SHOWN_REFUSALS = 5
CONNECTED_STATUSES = (Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING)


@dataclass(frozen=True)
class ConnectProgress:
    """Progress of a delegate's first connection; `refusals` are failed registrations, newest first."""

    status: str
    instances: int
    refusals: list[DelegateEvent]
    seconds_left: int

    @property
    def is_connected(self) -> bool:
        return self.status in CONNECTED_STATUSES

    @property
    def is_late(self) -> bool:
        return not self.is_connected and (self.seconds_left == 0 or bool(self.refusals))

    @property
    def needs_start_check(self) -> bool:
        """Return whether its tasks may not run; a refused registration proves that one does."""
        is_blocked = self.status in (Connectivity.REJECTED, Connectivity.DISABLED)
        is_pending = self.status == Connectivity.PENDING_APPROVAL and self.instances > 0
        return self.is_late and not (self.refusals or is_blocked or is_pending)


def get_connect_progress(delegate: Delegate, now: datetime) -> ConnectProgress:
    """Return the connect progress of a delegate, with registrations by its name since its creation."""
    instances = list(delegate.instances.all())
    remaining_time = delegate.created_at + CONNECT_TIMEOUT - now
    return ConnectProgress(
        status=compute_delegate_status(delegate, instances, now),
        instances=len(instances),
        refusals=list(_list_refusals_since_creation(delegate)),
        seconds_left=max(0, int(remaining_time.total_seconds())),
    )


def _list_refusals_since_creation(delegate: Delegate) -> list[DelegateEvent]:
    """Return refused registrations; an unknown token has no scope, so the name identifies the delegate."""
    scope_filter = Q(scope_id=delegate.scope_id) | Q(scope__parent__isnull=True)
    refusals = DelegateEvent.objects.filter(
        scope_filter, name=delegate.name, kind=DelegateEvent.Kind.REFUSED, at__gte=delegate.created_at
    )
    return list(refusals.order_by("-at")[:MAX_SHOWN_REFUSALS])


OPEN_SESSION_FILTER = Q(instances__session_hash__gt="") & ~Q(instances__status=DelegateInstance.Status.GONE)


@dataclass(frozen=True)
class RevocationImpact:
    """Effect of revoking a token: delegates with their instances by name, and the number of hidden ones."""

    delegates: list[tuple[Delegate, list[DelegateInstance]]]
    hidden: int

    def __bool__(self) -> bool:
        return bool(self.delegates or self.hidden)


def list_tokens_with_use() -> QuerySet[DelegateToken]:
    """Return the tokens without values, each with `delegate_count` and `instance_count` of open sessions."""
    tokens = DelegateToken.objects.defer("value").select_related("scope", "created_by", "revoked_by")
    return tokens.annotate(
        delegate_count=Count("instances__delegate", filter=OPEN_SESSION_FILTER, distinct=True),
        instance_count=Count("instances", filter=OPEN_SESSION_FILTER, distinct=True),
    )


def list_usable_tokens(principal: Principal, scope: Scope | None = None) -> QuerySet[DelegateToken]:
    """Return the valid tokens that a user may put into a spec, of one scope or of all."""
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    tokens = DelegateToken.objects.defer("value").select_related("scope")
    active = tokens.filter(current, status=DelegateToken.Status.ACTIVE)
    usable_tokens = filter_visible(principal, "core_delegate_edit", active).order_by("scope__path", "name")
    return usable_tokens if scope is None else usable_tokens.filter(scope=scope)


def get_revocation_impact(token: DelegateToken, reader: Principal) -> RevocationImpact:
    """Return the sessions that end when `token` is revoked; `reader` gets the names of visible delegates."""
    token_instances = DelegateInstance.objects.filter(token=token).exclude(
        status=DelegateInstance.Status.GONE
    )
    with_session = token_instances.exclude(session_hash="")
    visible = filter_visible(reader, "core_delegate_view", with_session)
    grouped: dict[Delegate, list[DelegateInstance]] = {}
    for instance in visible.select_related("delegate").order_by("delegate__name", "hostname", "pk"):
        grouped.setdefault(instance.delegate, []).append(instance)
    visible_count = sum(len(instances) for instances in grouped.values())
    return RevocationImpact(list(grouped.items()), with_session.count() - visible_count)
