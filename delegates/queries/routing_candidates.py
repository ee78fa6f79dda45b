"""Candidates for routing: delegates with tags, capacity and lists, read in batches."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, OuterRef, QuerySet, Subquery

from delegates.connectivity import Connectivity, compute_delegate_status, is_connected
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
from delegates.routing.rules import RoutingCandidate, RoutingRequest

# How long an offer that a delegate let pass speaks against it.
MISSED_OFFER_WINDOW = timedelta(seconds=60)


def build_routing_request(task: DelegateTask) -> RoutingRequest:
    """Return the routing request of a task; its scope must be loaded."""
    return RoutingRequest(
        scope=task.scope.path,
        selectors=tuple(task.selectors),
        selectors_from=task.selectors_from,
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
    """Return the tag of a single delegate; users cannot set it because it contains a space."""
    return f"delegate {delegate_id}"


def list_instance_tags(instances: Iterable[DelegateInstance], now: datetime) -> frozenset[str]:
    """Return the tags of the connected instances, or of the last seen one if none is connected."""
    rows = list(instances)
    live = [instance for instance in rows if is_connected(instance, now)]
    if not live and rows:
        live = [max(rows, key=lambda instance: instance.last_heartbeat_at or instance.registered_at)]
    return frozenset(tag for instance in live for tag in instance.tags)


def list_effective_tags(
    delegate: Delegate, instances: Iterable[DelegateInstance], now: datetime
) -> frozenset[str]:
    """Return all tags of a delegate in lower case: user tags, its name, instance tags (R047-R050)."""
    tags = {*delegate.tags, delegate.name, build_own_tag(delegate.pk), *list_instance_tags(instances, now)}
    return frozenset(tag.casefold() for tag in tags)


@dataclass
class CandidatePool:
    """Delegates at one moment for a batch of tasks; `record_assignment` counts the batch's own offers."""

    now: datetime
    delegates: dict[int, RoutingCandidate]
    blocked: dict[tuple[int, str], tuple[float, str]] = field(default_factory=dict)
    allowed: dict[tuple[int, str], float] = field(default_factory=dict)
    served: dict[int, int] = field(default_factory=dict)
    missed: dict[Any, Counter[int]] = field(default_factory=dict)
    refusals: dict[tuple[Any, int], str] = field(default_factory=dict)

    def for_task(self, task: DelegateTask) -> list[RoutingCandidate]:
        """Return the candidates for one task."""
        missed = self.missed.get(task.pk, Counter())
        return [
            self._build_for_task(task, delegate, missed[delegate.key]) for delegate in self.delegates.values()
        ]

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
            refusal=self.refusals.get((task.pk, candidate.key), ""),
        )

    def record_assignment(self, key: int) -> None:
        """Count one more task for a delegate."""
        candidate = self.delegates[key]
        last = max(self.now.timestamp(), *(other.last_assigned_at for other in self.delegates.values()))
        self.delegates[key] = replace(candidate, busy=candidate.busy + 1, last_assigned_at=last + 1e-6)


def read_candidate_pool(tasks: Sequence[DelegateTask], now: datetime) -> CandidatePool:
    """Return all facts of delegates for routing `tasks`."""
    criteria = {task.criterion for task in tasks if task.criterion}
    connectors = {task.connector_id for task in tasks if task.connector_id}
    lapsed = [task.pk for task in tasks if task.offered_to_id]
    return CandidatePool(
        now=now,
        delegates=_read_candidates(now, besides=[task.pk for task in tasks if _is_offered(task, now)]),
        blocked={
            (entry.delegate_id, entry.criterion): ((entry.expires_at - now).total_seconds(), entry.reason)
            for entry in BlocklistEntry.objects.filter(criterion__in=criteria, expires_at__gt=now)
        },
        allowed={
            (entry.delegate_id, entry.criterion): (entry.expires_at - now).total_seconds()
            for entry in AllowlistEntry.objects.filter(criterion__in=criteria, expires_at__gt=now)
        },
        served=dict(
            LastServed.objects.filter(connector__in=connectors).values_list("connector_id", "delegate_id")
        ),
        missed=_count_missed_offers(lapsed, now),
        refusals=_read_refusals([task.pk for task in tasks if task.attempts]),
    )


def _read_refusals(tasks: list[Any]) -> dict[tuple[Any, int], str]:
    """Return why delegates could not begin these tasks, by task and delegate."""
    if not tasks:
        return {}
    refused = TaskAttempt.objects.filter(task__in=tasks, instance__isnull=False).exclude(refusal="")
    return {
        (task, delegate): refusal
        for task, delegate, refusal in refused.values_list("task_id", "instance__delegate_id", "refusal")
    }


def _count_missed_offers(tasks: list[Any], now: datetime) -> dict[Any, Counter[int]]:
    """Count each delegate's recent offers of a task that no delegate has taken."""
    missed: dict[Any, Counter[int]] = defaultdict(Counter)
    recent = RoutingDecision.objects.filter(
        task__in=tasks, at__gt=now - MISSED_OFFER_WINDOW, chosen__isnull=False
    )
    for task, delegate in recent.values_list("task_id", "chosen_id"):
        missed[task][delegate] += 1
    return missed


def _read_candidates(now: datetime, *, besides: Iterable[Any]) -> dict[int, RoutingCandidate]:
    """Return all delegates as candidates; offers of other tasks (`besides`) count as load."""
    started = Counter(
        dict(
            DelegateTask.objects.filter(status=DelegateTask.Status.STARTED, instance__isnull=False)
            .values_list("instance_id")
            .annotate(Count("pk"))
        )
    )
    offers = _filter_offered(now).exclude(pk__in=besides)
    offered = Counter(dict(offers.values_list("offered_to_id").annotate(Count("pk"))))
    last = dict(_annotate_last_task().values_list("pk", "last_task_at"))
    delegates = Delegate.objects.filter(archived_at=None).select_related("scope", "configuration")
    return {
        delegate.pk: _build_candidate(delegate, _Workload(started, offered[delegate.pk], last), now)
        for delegate in delegates.prefetch_related("instances")
    }


def _is_offered(task: DelegateTask, now: datetime) -> bool:
    return task.offered_until is not None and task.offered_until > now


def _filter_offered(now: datetime) -> QuerySet[DelegateTask]:
    return DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED, offered_until__gt=now).exclude(
        offered_to=None
    )


def _annotate_last_task() -> QuerySet[Any]:
    newest = DelegateTask.objects.filter(instance=OuterRef("pk")).order_by("-queued_at")
    return DelegateInstance.objects.annotate(last_task_at=Subquery(newest.values("queued_at")[:1]))


@dataclass(frozen=True)
class _Workload:
    """Tasks by instance, offers by delegate, and the last assignment of each instance."""

    started: Counter[int]
    offered: int
    last: dict[int, datetime | None]


def _build_candidate(delegate: Delegate, work: _Workload, now: datetime) -> RoutingCandidate:
    instances = list(delegate.instances.all())
    live = [instance for instance in instances if is_connected(instance, now)]
    last = [moment.timestamp() for instance in instances if (moment := work.last.get(instance.pk))]
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
        busy=sum(work.started[instance.pk] for instance in live) + work.offered,
        last_assigned_at=max(last, default=0),
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
