"""Routing among many delegates: the database narrows and ranks them, the rules judge the first ones."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain

from django.db.models import Exists, OuterRef, QuerySet

from delegates.models import AllowlistEntry, Delegate, DelegateTask, LastServed
from delegates.queries.routing_candidates import (
    AllowedUntil,
    CandidatePool,
    build_routing_request,
    read_allowed,
    read_assignments,
    read_candidate_pool,
    read_loads,
    read_refusals,
)
from delegates.queries.routing_filters import filter_fit, filter_registered, filter_script_runners
from delegates.queries.tag_filters import TagFilter
from delegates.routing.decisions import MAX_COUNTED, Omission, RoutingResult, decide_route, select_first
from delegates.routing.rules import RoutingCandidate, RoutingRequest, has_selectors, is_in_reach
from rbac.models import Scope
from rbac.models.scopes import list_ancestor_paths

# An installation with so few delegates is evaluated as a whole, with verdicts on all of them.
SMALL_FLEET = 20
# Candidates that the rules judge for one task.
MAX_JUDGED = 10
# So many delegates that reached an address are read by their keys; more of them, in round-robin order.
SPARSE = 200
# A request, and the connector of its tasks.
Need = tuple[RoutingRequest, int | None]
# Delegates that could not begin a task, each with its reason.
Refusals = frozenset[tuple[int, str]]


@dataclass(frozen=True)
class Shortlist:
    """Keys of the best delegates for a need; `is_complete` if no others are eligible."""

    keys: frozenset[int]
    is_complete: bool


def has_other_delegate(task: DelegateTask, delegate_id: int, now: datetime) -> bool:
    """Return whether another delegate may take a task that this one could not begin, if need be later.

    Its scope must be loaded.
    """
    request, scopes = build_routing_request(task), list(read_scopes([task]).values())
    fit = filter_fit(request, scopes, now).exclude(pk=delegate_id)
    fit = TagFilter(scopes, now).narrow(fit, request.selectors)
    refused = {delegate for _, delegate in read_refusals([task])}
    return fit.exclude(pk__in=refused).exists()


def get_need(task: DelegateTask) -> Need:
    """Return what tasks have in common that go to the same delegates."""
    return build_routing_request(task), task.connector_id


class RoutingField:
    """Delegates for a batch of tasks at one moment; each assignment counts for the next decision."""

    def __init__(self, tasks: Sequence[DelegateTask], now: datetime, *, sparse: int = SPARSE) -> None:
        self.now = now
        self._tasks = tasks
        self._sparse = sparse
        self._assignments = read_assignments(tasks, now)
        self._scopes = read_scopes(tasks)
        # By criterion; None for more than `sparse` entries.
        self._allowed: dict[str, AllowedUntil | None] = {}
        self._tags = TagFilter(list(self._scopes.values()), now, common=sparse)
        self._shortlists = self._read_shortlists(tasks)
        self._pool = self._read_pool(self._list_keys(tasks))

    def list_refusals(self, task: DelegateTask) -> Refusals:
        """Return the delegates that could not begin one of the tasks, with their reasons."""
        return self._assignments.list_refusals(task)

    def decide(self, task: DelegateTask) -> RoutingResult:
        """Return the decision on one of the tasks, the same as if the rules had judged all delegates."""
        request, _ = need = get_need(task)
        if self._shortlists is None:
            decision = decide_route(request, self._pool.for_task(task))
        else:
            decision = self._decide_among(task, request, self._shortlists[need])
        if decision.chosen:
            self._pool.record_assignment(decision.chosen.key)
        return decision

    def _decide_among(
        self, task: DelegateTask, request: RoutingRequest, shortlist: Shortlist
    ) -> RoutingResult:
        keys = shortlist.keys | self._assignments.list_earlier_delegates(task)
        candidates = self._pool.for_task(task, [key for key in keys if key in self._pool.delegates])
        # Those that refused the task are judged for the explanation only.
        refused = [candidate for candidate in candidates if candidate.refusal][:MAX_JUDGED]
        willing = [candidate for candidate in candidates if not candidate.refusal]
        first = select_first(request, willing, MAX_JUDGED)
        omits_some = not shortlist.is_complete or len(first) < len(willing)
        decision = decide_route(request, [*first, *refused], Omission(eligible=omits_some))
        return decision if decision.chosen else self._explain_wait(task, request, refused)

    def _explain_wait(
        self, task: DelegateTask, request: RoutingRequest, refused: Iterable[RoutingCandidate]
    ) -> RoutingResult:
        """Return the decision on a task without an eligible delegate: verdicts on the first ones in reach."""
        registered = filter_registered(self._get_reach(request)).order_by("pk")
        selected = self._tags.narrow(registered, request.selectors)
        first = list(selected.values_list("pk", flat=True)[:MAX_JUDGED])
        # Waiting helps if one delegate may do it later: it has the tags, and one of them runs scripts.
        able = [_find_admissible(selected)]
        if request.is_script:
            able.append(_find_admissible(filter_script_runners(registered)))
        keys = {*first, *chain(*able), *(candidate.key for candidate in refused)}
        if missing := keys - self._pool.delegates.keys():
            self._pool.include(self._read_pool(missing))
        candidates = self._pool.for_task(task, keys & self._pool.delegates.keys())
        judged = sum(
            is_in_reach(request, candidate) and has_selectors(request, candidate) for candidate in candidates
        )
        counted = selected[: judged + MAX_COUNTED].count()
        return decide_route(request, candidates, Omission(selected=counted - judged))

    def _read_pool(self, among: Collection[int] | None) -> CandidatePool:
        known = [self._allowed.get(criterion) for criterion in {task.criterion for task in self._tasks}]
        allowed = None if None in known else {key: at for part in known if part for key, at in part.items()}
        return read_candidate_pool(
            self._tasks, self.now, among=among, assignments=self._assignments, allowed=allowed
        )

    def _list_allowed(self, criterion: str) -> set[int] | None:
        """Return the delegates that reached an address recently, or None for too many."""
        if criterion not in self._allowed:
            most, conditions = self._sparse, {"criterion": criterion, "expires_at__gt": self.now}
            entries = read_allowed(**conditions, most=most + 1) if criterion else {}
            self._allowed[criterion] = entries if len(entries) <= most else None
        known = self._allowed[criterion]
        return None if known is None else {delegate for delegate, _ in known}

    def _list_keys(self, tasks: Sequence[DelegateTask]) -> set[int] | None:
        if self._shortlists is None:
            return None
        keys = {key for shortlist in self._shortlists.values() for key in shortlist.keys}
        return keys.union(*(self._assignments.list_earlier_delegates(task) for task in tasks))

    def _get_reach(self, request: RoutingRequest) -> list[int]:
        paths = list_ancestor_paths(request.scope)
        return [self._scopes[path] for path in paths if path in self._scopes]

    def _read_shortlists(self, tasks: Sequence[DelegateTask]) -> dict[Need, Shortlist] | None:
        """Return a shortlist for each need; None for a small fleet, which is read as a whole."""
        if _is_small_fleet():
            return None
        earlier = [len(self._assignments.list_earlier_delegates(task)) for task in tasks]
        # Each decision on another task, and each earlier offer, takes at most one delegate out of the order.
        most = len(tasks) + max(earlier, default=0) + MAX_JUDGED
        return {need: self._read_shortlist(need, most) for need in {get_need(task) for task in tasks}}

    def _read_shortlist(self, need: Need, most: int) -> Shortlist:
        request, connector = need
        busy = self._assignments.busy
        allowed = self._list_allowed(request.criterion)
        idle = self._list_idle(request, most)
        if allowed is None:
            preferred = self._list_idle(request, most, is_allowed=True)
            allowed = _list_allowed_among(busy, request.criterion, self.now)
        else:
            preferred = self._list_idle(request, most, among=allowed - busy) if allowed - busy else []
        working = self._list_busy(request, busy & allowed, most)
        # The other busy ones rank behind those without tasks.
        rest = self._list_busy(request, busy - allowed, most) if len(idle) < most else []
        served = LastServed.objects.filter(connector=connector) if connector else LastServed.objects.none()
        keys = {*idle, *preferred, *working, *rest, *served.values_list("delegate_id", flat=True)}
        is_complete = all(len(ranked) < most for ranked in (idle, preferred, working, rest))
        return Shortlist(frozenset(keys), is_complete)

    def _list_idle(
        self,
        request: RoutingRequest,
        most: int,
        *,
        among: Iterable[int] | None = None,
        is_allowed: bool = False,
    ) -> list[int]:
        """Return the eligible delegates without tasks in round-robin order."""
        rows: list[tuple[datetime, int]] = []
        # One scope at a time: an index has its delegates in this order.
        for scope in self._get_reach(request):
            idle = filter_fit(request, [scope], self.now, accepts_tasks=True)
            idle = idle.exclude(pk__in=self._assignments.busy)
            if among is not None:
                idle = idle.filter(pk__in=among)
            if is_allowed:
                idle = idle.filter(Exists(_select_allowed(request.criterion, self.now)))
            idle = self._tags.narrow(idle, request.selectors).order_by("last_assigned_at", "pk")
            rows += idle.values_list("last_assigned_at", "pk")[:most]
        return [pk for _, pk in sorted(rows)[:most]]

    def _list_busy(self, request: RoutingRequest, keys: Iterable[int], most: int) -> list[int]:
        """Return those of these delegates that have tasks and are eligible for more, by their load."""
        free = [key for key in keys if self._loads.get(key, 1) < 1]
        if not free:
            return []
        fit = filter_fit(request, self._get_reach(request), self.now).filter(pk__in=free)
        rows = self._tags.narrow(fit, request.selectors).values_list("last_assigned_at", "pk")
        ordered = sorted((self._loads[pk], moment, pk) for moment, pk in rows)
        return [pk for _, _, pk in ordered[:most]]

    @cached_property
    def _loads(self) -> dict[int, float]:
        """Shares of the capacity that are in use, of the delegates with tasks."""
        return read_loads(self._assignments, self.now)


def read_scopes(tasks: Iterable[DelegateTask]) -> dict[str, int]:
    """Return the scopes in reach of the tasks that have delegates, by path."""
    paths = {path for task in tasks for path in list_ancestor_paths(task.scope.path)}
    delegates = Delegate.objects.filter(scope=OuterRef("pk"), archived_at=None)
    scopes = Scope.objects.filter(Exists(delegates), path__in=paths)
    return dict(scopes.values_list("path", "pk"))


def _find_admissible(delegates: QuerySet[Delegate]) -> QuerySet[Delegate, int]:
    """Return the first of these delegates that is not rejected."""
    return delegates.exclude(admission=Delegate.Admission.REJECTED).values_list("pk", flat=True)[:1]


def _is_small_fleet() -> bool:
    return len(Delegate.objects.filter(archived_at=None).values_list("pk")[: SMALL_FLEET + 1]) <= SMALL_FLEET


def _list_allowed_among(keys: Iterable[int], criterion: str, now: datetime) -> set[int]:
    entries = AllowlistEntry.objects.filter(delegate__in=keys, criterion=criterion, expires_at__gt=now)
    return set(entries.values_list("delegate_id", flat=True))


def _select_allowed(criterion: str, now: datetime) -> QuerySet[AllowlistEntry]:
    return AllowlistEntry.objects.filter(delegate=OuterRef("pk"), criterion=criterion, expires_at__gt=now)
