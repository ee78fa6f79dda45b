"""Candidates for routing: delegates with tags, capacity and lists, read in batches."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum

from delegates.connectivity import Connectivity, build_live_filter, compute_delegate_status, is_connected
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateInstance,
    DelegateTask,
    LastServed,
    RoutingDecision,
    TaskAttempt,
)
from delegates.models.tags import OWN_TAG, fold_tags
from delegates.routing.rules import RoutingCandidate, RoutingRequest

# How long an offer that a delegate let pass speaks against it.
MISSED_OFFER_WINDOW = timedelta(seconds=60)
# When the allowlist entry of a delegate for a criterion expires.
AllowedUntil = dict[tuple[int, str], datetime]


def build_routing_request(task: DelegateTask) -> RoutingRequest:
    """Return the routing request of a task; its scope must be loaded."""
    return RoutingRequest(
        scope=task.scope.path,
        selectors=tuple(task.selectors),
        selectors_from=task.selectors_from,
        names_delegate=any(OWN_TAG.fullmatch(tag) for tag in task.selectors),
        criterion=task.criterion,
        aws_account=task.aws_account,
        environment=task.environment,
        task_kind=task.kind if task.kind in DelegateTask.LIMITABLE else "",
        features=tuple(task.features),
        is_script=task.kind in DelegateTask.RUNS_CODE,
        needs_isolation=task.kind in DelegateTask.ISOLATED,
        excluded=task.excluded_delegate_id,
    )


def build_own_tag(delegate_id: int) -> str:
    """Return the tag of a single delegate; no other delegate has it, whatever its users and agents name."""
    return f"delegate {delegate_id}"


def list_instance_tags(instances: Iterable[DelegateInstance], now: datetime) -> frozenset[str]:
    """Return the tags of the connected instances, or of the last seen one if none is connected."""
    rows = list(instances)
    live = [instance for instance in rows if is_connected(instance, now)]
    if not live and rows:
        live = [max(rows, key=lambda row: (row.last_heartbeat_at or row.registered_at, -row.pk))]
    return frozenset(tag for instance in live for tag in instance.tags)


def list_effective_tags(
    delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime
) -> frozenset[str]:
    """Return all tags of a delegate in lower case: user tags, its name, instance tags (R047-R050)."""
    tags = fold_tags([*delegate.tags, delegate.name, *list_instance_tags(instances, now)])
    return tags | {build_own_tag(delegate.pk)}


@dataclass(frozen=True)
class Assignments:
    """Running tasks by instance and their delegates, offers by delegate, and what became of earlier offers.

    `refusals` says why delegates could not begin tasks, `missed` counts recent offers that nobody took.
    """

    started: Counter[int]
    holders: frozenset[int]
    offered: Counter[int]
    refusals: dict[tuple[Any, int], str]
    missed: dict[Any, Counter[int]]

    @property
    def busy(self) -> frozenset[int]:
        """Return the delegates with a running or offered task."""
        return self.holders | self.offered.keys()

    def list_earlier_delegates(self, task: DelegateTask) -> set[int]:
        """Return the delegates that refused the task, or let its offer pass a moment ago."""
        refused = {delegate for delegate, _ in self.list_refusals(task)}
        return refused | set(self.missed.get(task.pk, ()))

    def list_refusals(self, task: DelegateTask) -> frozenset[tuple[int, str]]:
        """Return the delegates that could not begin the task, each with its reason."""
        return frozenset((key, reason) for (pk, key), reason in self.refusals.items() if pk == task.pk)


def read_assignments(tasks: Sequence[DelegateTask], now: datetime) -> Assignments:
    """Return the current assignments of all delegates; offers of these tasks do not count."""
    status = DelegateTask.Status
    is_running = Q(status=status.STARTED, instance__isnull=False)
    is_offered = Q(status=status.QUEUED, offered_until__gt=now, offered_to__isnull=False)
    own = [task.pk for task in tasks if task.offered_until is not None and task.offered_until > now]
    assigned = DelegateTask.objects.filter(is_running | is_offered).exclude(pk__in=own)
    started, offered, holders = Counter[int](), Counter[int](), set[int]()
    columns = ("status", "instance_id", "instance__delegate_id", "offered_to_id")
    for state, instance, holder, delegate, count in assigned.values_list(*columns).annotate(Count("pk")):
        if state == status.STARTED:
            started[instance] += count
            holders.add(holder)
        else:
            offered[delegate] += count
    return Assignments(
        started=started,
        holders=frozenset(holders),
        offered=offered,
        refusals=read_refusals(tasks),
        missed=_count_missed_offers([task.pk for task in tasks if task.offered_to_id], now),
    )


def count_free_places(delegate: int, now: datetime) -> int:
    """Return how many more tasks a delegate may be given."""
    live = DelegateInstance.objects.filter(build_live_filter(now), delegate=delegate)
    running = Q(status=DelegateTask.Status.STARTED, instance__delegate=delegate)
    offered = Q(status=DelegateTask.Status.QUEUED, offered_to=delegate, offered_until__gt=now)
    capacity = live.aggregate(total=Sum("capacity"))["total"] or 0
    return int(capacity) - DelegateTask.objects.filter(running | offered).count()


def read_loads(assignments: Assignments, now: datetime) -> dict[int, float]:
    """Return the share of the capacity in use, of each delegate with tasks that has a capacity."""
    live = DelegateInstance.objects.filter(build_live_filter(now), delegate__in=assignments.busy)
    used, capacity = Counter(assignments.offered), Counter[int]()
    for delegate, instance, size in live.values_list("delegate_id", "pk", "capacity"):
        used[delegate] += assignments.started[instance]
        capacity[delegate] += size
    return {delegate: used[delegate] / size for delegate, size in capacity.items() if size}


@dataclass
class CandidatePool:
    """Delegates at one moment for a batch of tasks; `record_assignment` counts the batch's own offers."""

    now: datetime
    assignments: Assignments
    delegates: dict[int, RoutingCandidate]
    blocked: dict[tuple[int, str], tuple[float, str]] = field(default_factory=dict)
    allowed: dict[tuple[int, str], float] = field(default_factory=dict)
    served: dict[int, int] = field(default_factory=dict)
    # In seconds since the epoch.
    last_assigned_at: float = 0

    def include(self, other: "CandidatePool") -> None:
        """Add the delegates of another pool that this one lacks."""
        self.delegates = other.delegates | self.delegates
        self.blocked |= other.blocked
        self.allowed |= other.allowed

    def for_task(self, task: DelegateTask, keys: Iterable[int] | None = None) -> list[RoutingCandidate]:
        """Return the candidates for one task, all of them or these."""
        missed = self.assignments.missed.get(task.pk, Counter())
        delegates = self.delegates.values() if keys is None else (self.delegates[key] for key in keys)
        return [self._build_for_task(task, delegate, missed[delegate.key]) for delegate in delegates]

    def _build_for_task(
        self, task: DelegateTask, candidate: RoutingCandidate, missed: int
    ) -> RoutingCandidate:
        blocked, reason = self.blocked.get((candidate.key, task.criterion), (0, ""))
        return replace(
            candidate,
            blocked_seconds=blocked,
            blocked_reason=reason,
            allowed_seconds=self.allowed.get((candidate.key, task.criterion), 0),
            served_connector=task.connector_id is not None
            and self.served.get(task.connector_id) == candidate.key,
            missed=missed,
            refusal=self.assignments.refusals.get((task.pk, candidate.key), ""),
        )

    def record_assignment(self, key: int) -> None:
        """Count one more task for a delegate."""
        candidate = self.delegates[key]
        self.last_assigned_at = max(self.now.timestamp(), self.last_assigned_at) + 1e-6
        self.delegates[key] = replace(
            candidate, busy=candidate.busy + 1, last_assigned_at=self.last_assigned_at
        )


def read_candidate_pool(
    tasks: Sequence[DelegateTask],
    now: datetime,
    *,
    among: Collection[int] | None = None,
    assignments: Assignments | None = None,
    allowed: AllowedUntil | None = None,
) -> CandidatePool:
    """Return all facts of delegates for routing `tasks`, of all delegates or `among` some.

    `allowed` is the whole allowlist of the tasks' criteria, if it was read already.
    """
    assignments = assignments or read_assignments(tasks, now)
    delegates = _read_candidates(assignments, now, among)
    criteria = {task.criterion for task in tasks if task.criterion}
    connectors = {task.connector_id for task in tasks if task.connector_id}
    entries: dict[str, Any] = {"criterion__in": criteria, "expires_at__gt": now}
    if among is not None:
        entries["delegate__in"] = among
    return CandidatePool(
        now=now,
        assignments=assignments,
        delegates=delegates,
        blocked={
            (entry.delegate_id, entry.criterion): ((entry.expires_at - now).total_seconds(), entry.reason)
            for entry in BlocklistEntry.objects.filter(**entries)
        },
        allowed={
            key: (expires_at - now).total_seconds()
            for key, expires_at in (read_allowed(**entries) if allowed is None else allowed).items()
        },
        served=dict(
            LastServed.objects.filter(connector__in=connectors).values_list("connector_id", "delegate_id")
        ),
        last_assigned_at=max((delegate.last_assigned_at for delegate in delegates.values()), default=0),
    )


def read_allowed(*, most: int | None = None, **conditions: Any) -> AllowedUntil:
    """Return the allowlist entries with these values of columns, at most some of them."""
    entries = AllowlistEntry.objects.filter(**conditions).values_list(
        "delegate_id", "criterion", "expires_at"
    )
    return {(delegate, criterion): expires_at for delegate, criterion, expires_at in entries[:most]}


def read_refusals(tasks: Iterable[DelegateTask]) -> dict[tuple[Any, int], str]:
    """Return why delegates could not begin these tasks, by task and delegate."""
    repeated = [task.pk for task in tasks if task.attempts]
    if not repeated:
        return {}
    refused = TaskAttempt.objects.filter(task__in=repeated, instance__isnull=False).exclude(refusal="")
    return {
        (task, delegate): refusal
        for task, delegate, refusal in refused.values_list("task_id", "instance__delegate_id", "refusal")
    }


def _count_missed_offers(tasks: list[Any], now: datetime) -> dict[Any, Counter[int]]:
    """Count each delegate's recent offers of a task that no delegate has taken."""
    missed: dict[Any, Counter[int]] = defaultdict(Counter)
    if not tasks:
        return missed
    recent = RoutingDecision.objects.filter(
        task__in=tasks, at__gt=now - MISSED_OFFER_WINDOW, chosen__isnull=False
    )
    for task, delegate in recent.values_list("task_id", "chosen_id"):
        missed[task][delegate] += 1
    return missed


def _read_candidates(
    assignments: Assignments, now: datetime, among: Collection[int] | None
) -> dict[int, RoutingCandidate]:
    delegates = Delegate.objects.filter(archived_at=None).select_related("scope", "configuration")
    if among is not None:
        delegates = delegates.filter(pk__in=among)
    return {
        delegate.pk: _build_candidate(delegate, assignments, now)
        for delegate in delegates.defer("spec", "configuration__script").prefetch_related("instances")
    }


def _build_candidate(delegate: Delegate, assignments: Assignments, now: datetime) -> RoutingCandidate:
    instances = list(delegate.instances.all())
    live = [instance for instance in instances if is_connected(instance, now)]
    configuration = delegate.configuration
    return RoutingCandidate(
        key=delegate.pk,
        name=delegate.name,
        scope=delegate.scope.path,
        connected=bool(live),
        last_heartbeat=_describe_last_heartbeat(delegate, instances, now),
        admission=delegate.admission,
        draining=delegate.draining,
        environments=tuple(configuration.environments) if configuration else (),
        task_kinds=tuple(configuration.task_kinds) if configuration else (),
        aws_account=delegate.aws_account,
        tags=list_effective_tags(delegate, instances, now),
        capacity=sum(instance.capacity for instance in live),
        busy=sum(assignments.started[instance.pk] for instance in live) + assignments.offered[delegate.pk],
        last_assigned_at=delegate.last_assigned_at.timestamp(),
        features=_list_common_features(delegate, live),
        runs_scripts=settings.EMBEDDED or not delegate.is_built_in,
        is_isolated=any(instance.is_isolated for instance in live),
        shares_scripts=delegate.shares_scripts,
        script_scopes=tuple(sorted({instance.script_scope for instance in live})),
    )


def _list_common_features(delegate: Delegate, live: Sequence[DelegateInstance]) -> frozenset[str] | None:
    """Return what all instances can do, because any of them may take a task; None is everything."""
    if delegate.is_built_in or not live:
        return None
    return frozenset.intersection(*(frozenset(instance.features) for instance in live))


def _describe_last_heartbeat(delegate: Delegate, instances: list[DelegateInstance], now: datetime) -> str:
    heartbeats = [instance.last_heartbeat_at for instance in instances if instance.last_heartbeat_at]
    if not heartbeats:
        return "It has sent no heartbeat."
    at = f"{max(heartbeats):%Y-%m-%d %H:%M:%S} UTC"
    if any(is_connected(instance, now) for instance in instances):
        return f"Last heartbeat at {at}."
    # Decisions of users are a rule of their own.
    status = compute_delegate_status(Delegate(), instances, now)
    if status == Connectivity.DRAINING:
        return "Its instances are draining."
    if status == Connectivity.LATE:
        return f"Its connection was lost; last heartbeat at {at}."
    return f"Last heartbeat at {at}."
