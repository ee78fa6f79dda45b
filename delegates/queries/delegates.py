"""Delegates as lists and documents show them: status, instances, tags, what runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from delegates.connectivity import Connectivity, instance_status, status_of
from delegates.models import Delegate, DelegateEvent, DelegateInstance, DelegateTask
from delegates.queries.connectivities import connectivity_at
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to

VIEW = "core_delegate_view"
Kind = DelegateEvent.Kind
# Instances of these statuses count among those that a delegate should have.
EXPECTED = (DelegateInstance.Status.REGISTERED, DelegateInstance.Status.DRAINING)
HERE = (Connectivity.CONNECTED, Connectivity.LATE, Connectivity.DRAINING)


@dataclass(frozen=True)
class InstanceFacts:
    """One instance at one moment; `running` counts the tasks that it holds a lease on."""

    instance: DelegateInstance
    status: str
    running: int


@dataclass(frozen=True)
class DelegateFacts:
    """One delegate at one moment, as a row of the list shows it. Equal facts look the same."""

    pk: int
    name: str
    scope_id: int
    scope: str
    description: str
    is_built_in: bool
    status: str
    reason: str
    tags: tuple[str, ...]
    heard_at: datetime | None
    connections: tuple[str, ...]
    versions: tuple[str, ...]
    here: int
    expected: int
    capacity: int
    running: int


def usable_or_below(
    principal: Principal, scope: Scope | None, delegates: QuerySet[Delegate] | None = None
) -> QuerySet[Delegate]:
    """Delegates that a reader sees in a scope: its own, those below, and those above that serve it (R053)."""
    found = Delegate.objects.all() if delegates is None else delegates
    if scope is None:
        return found.none()
    above = Q(scope__path__in=scope.ancestor_paths())
    return visible_to(principal, VIEW, found).filter(at_or_below(scope) | above)


def with_status(delegates: QuerySet[Delegate], status: str, now: datetime) -> QuerySet[Delegate]:
    """Only those with a status of `Connectivity`."""
    return delegates.alias(connectivity=connectivity_at(now)).filter(connectivity=status)


def with_tag(delegates: QuerySet[Delegate], tag: str, now: datetime) -> QuerySet[Delegate]:
    """Only those that a selector `tag` means, whoever set it; case does not count."""
    found = [
        one.pk
        for one in with_instances(delegates).defer("spec", "description")
        if tag.casefold() in {known.casefold() for known in tags_of(one, one.instances.all(), now)}
    ]
    return delegates.filter(pk__in=found)


def with_instances(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    """Delegates with their scope and instances, in three queries whatever their number."""
    newest = (
        DelegateInstance.objects.select_related("token")
        .defer("token__value")
        .order_by("-registered_at", "pk")
    )
    return delegates.select_related("scope").prefetch_related(Prefetch("instances", newest))


def tags_of(delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime) -> tuple[str, ...]:
    """What selectors can name: the name, tags that people set, and those of instances that are here (N10)."""
    said = [tag for one in instances if instance_status(one, now) in HERE for tag in one.tags]
    return tuple(dict.fromkeys([*delegate.tags, *map(str, said), delegate.name]))


def facts_of(delegates: Iterable[Delegate], now: datetime | None = None) -> list[DelegateFacts]:
    """Facts of delegates that came from `with_instances`; one query more, for the tasks that run."""
    found = list(delegates)
    running = running_on(instance.pk for one in found for instance in one.instances.all())
    ends = last_ends(found)
    return [facts(one, running, now or timezone.now(), ends.get(one.pk)) for one in found]


def instance_facts(delegate: Delegate, running: dict[int, int], now: datetime) -> list[InstanceFacts]:
    """The instances of a delegate, newest first; those that are gone come last. `running` is by instance."""
    instances = delegate.instances.all()
    shown = [InstanceFacts(one, instance_status(one, now), running.get(one.pk, 0)) for one in instances]
    return sorted(shown, key=lambda one: one.instance.status == DelegateInstance.Status.GONE)


def running_on(instances: Iterable[int]) -> dict[int, int]:
    """How many tasks each instance has now."""
    started = DelegateTask.objects.filter(status=DelegateTask.Status.STARTED, instance__in=list(instances))
    counted = started.values_list("instance_id").annotate(number=Count("pk")).order_by()
    return {pk: number for pk, number in counted if pk is not None}


def newest_end() -> Subquery:
    """The key of the event by which each delegate of a query was refused, or lost its session, last."""
    known = DelegateEvent.objects.filter(
        scope=OuterRef("scope"), name=OuterRef("name"), kind__in=(Kind.REFUSED, Kind.SESSION_ENDED)
    )
    return Subquery(known.order_by("-at").values("pk")[:1])


def last_ends(delegates: Iterable[Delegate]) -> dict[int, DelegateEvent]:
    """The last time that each delegate was refused, or lost its session, by delegate; in one query."""
    found = Delegate.objects.filter(pk__in=[one.pk for one in delegates]).annotate(end=newest_end())
    events = DelegateEvent.objects.filter(pk__in=found.values("end")).only("scope", "name", "at", "text")
    by_name = {(one.scope_id, one.name): one for one in events}
    return {one.pk: by_name[key] for one in delegates if (key := (one.scope_id, one.name)) in by_name}


def facts(
    delegate: Delegate, running: dict[int, int], now: datetime, end: DelegateEvent | None = None
) -> DelegateFacts:
    """One delegate; `running` counts tasks by instance, `end` is what `last_ends` found."""
    instances = list(delegate.instances.all())
    status = status_of(delegate, instances, now)
    expected = [one for one in instances if one.status in EXPECTED]
    here = [one for one in expected if instance_status(one, now) in HERE]
    heard_at = heard_at_of(instances)
    return DelegateFacts(
        pk=delegate.pk,
        name=delegate.name,
        scope_id=delegate.scope_id,
        scope=delegate.scope.path,
        description=delegate.description,
        is_built_in=delegate.is_built_in,
        status=status.value,
        reason=reason_of(status, expected, said_since(end, heard_at)),
        tags=tags_of(delegate, instances, now),
        heard_at=heard_at,
        connections=tuple(sorted({one.get_connection_display() for one in here})),
        versions=tuple(sorted({one.version for one in here or expected if one.version})),
        here=len(here),
        expected=len(expected),
        capacity=sum(one.capacity for one in here),
        running=sum(running.get(one.pk, 0) for one in instances),
    )


def heard_at_of(instances: Iterable[DelegateInstance]) -> datetime | None:
    """When a delegate with these instances was last heard."""
    return max((one.last_heartbeat_at for one in instances if one.last_heartbeat_at), default=None)


def said_since(end: DelegateEvent | None, heard_at: datetime | None) -> str:
    """What is said of an end, if nothing was heard after it."""
    return "" if end is None or (heard_at is not None and end.at < heard_at) else end.text


def reason_of(status: Connectivity, expected: list[DelegateInstance], end: str = "") -> str:
    """Why a delegate takes no work, in a sentence; nothing where it does. `end` is what ended it last."""
    if end and status in (Connectivity.DISCONNECTED, Connectivity.NEVER_CONTACTED):
        return end
    if status == Connectivity.LATE and any(one.suspect_since for one in expected):
        return "Its socket closed: it gets no new tasks until it is heard again."
    if status == Connectivity.DISCONNECTED and not expected:
        return "Every instance has signed off or was given up."
    return REASONS.get(status, "")


REASONS = {
    Connectivity.LATE: "A heartbeat is overdue.",
    Connectivity.DISCONNECTED: "No heartbeat came for two and a half minutes.",
    Connectivity.NEVER_CONTACTED: "Nothing has registered under this name yet.",
    Connectivity.DRAINING: "It finishes what it has and takes nothing new.",
    Connectivity.PENDING_APPROVAL: "Somebody has to approve it before it gets tasks.",
    Connectivity.REJECTED: "Somebody rejected it.",
    Connectivity.DISABLED: "Somebody disabled it.",
}
