"""Explanation of routing on demand: how many delegates fail each rule now, and the verdicts by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.db.models import Count, Q, QuerySet

from delegates.models import Delegate, DelegateTask
from delegates.queries.routing_candidates import (
    build_routing_request,
    read_assignments,
    read_candidate_pool,
    read_loads,
)
from delegates.queries.routing_filters import build_failures
from delegates.queries.shortlists import read_scopes
from delegates.queries.tag_filters import TagFilter
from delegates.queries.tasks import CandidateLine, build_candidate_lines
from delegates.routing.rules import RoutingRule, evaluate_rules
from delegates.task_queue import serialize_verdict
from rbac.policy import Principal, filter_visible

VIEW = "core_delegate_view"


@dataclass(frozen=True)
class RuleFailures:
    """Number of delegates that fail one rule."""

    rule: str
    delegates: int


@dataclass(frozen=True)
class RoutingCounts:
    """Numbers of delegates; one that fails several rules counts for each of them."""

    total: int
    eligible: int
    failures: tuple[RuleFailures, ...]


class RoutingExplanation:
    """Delegates for one task at one moment, as the rules judge them; a constant number of queries.

    A reader gets the delegates in the task's reach, and of the others those that are visible.
    """

    def __init__(self, task: DelegateTask, principal: Principal, now: datetime) -> None:
        self._task = task
        self._principal = principal
        self._now = now
        self._request = build_routing_request(task)
        self._reach = list(read_scopes([task]).values())
        self._assignments = read_assignments([task], now)

    def list_delegates(self, failed: str = "") -> QuerySet[Delegate]:
        """Return all delegates, or those that fail a rule."""
        rows = self._list_all()
        return rows.filter(self._failures[RoutingRule(failed)]) if failed else rows

    def count(self) -> RoutingCounts:
        """Count the delegates by the rules that they fail."""
        failures = self._failures
        any_failure = Q()
        for condition in failures.values():
            any_failure |= condition
        columns = {f"failed_{number}": Count("pk", filter=q) for number, q in enumerate(failures.values())}
        counted = self._list_all().aggregate(
            total=Count("pk"), eligible=Count("pk", filter=~any_failure), **columns
        )
        return RoutingCounts(
            counted["total"],
            counted["eligible"],
            tuple(RuleFailures(rule.value, counted[f"failed_{n}"]) for n, rule in enumerate(failures)),
        )

    def list_lines(self, delegates: Sequence[Delegate]) -> tuple[CandidateLine, ...]:
        """Return these delegates with the verdict of each rule, in their order."""
        keys = [delegate.pk for delegate in delegates]
        pool = read_candidate_pool([self._task], self._now, among=keys, assignments=self._assignments)
        candidates = pool.for_task(self._task, [key for key in keys if key in pool.delegates])
        rows = [
            serialize_verdict(verdict)
            for candidate in candidates
            for verdict in evaluate_rules(self._request, candidate)
        ]
        lines = {line.delegate: line for line in build_candidate_lines(rows, None)}
        return tuple(lines[key] for key in keys if key in lines)

    def _list_all(self) -> QuerySet[Delegate]:
        visible = filter_visible(self._principal, VIEW, Delegate.objects.all())
        return Delegate.objects.filter(
            Q(scope__in=self._reach) | Q(pk__in=visible.values("pk")), archived_at=None
        )

    @cached_property
    def _failures(self) -> dict[RoutingRule, Q]:
        """Conditions of the delegates that fail each rule, in the order of the rules."""
        loads = read_loads(self._assignments, self._now)
        task, in_reach = self._task, Q(scope__in=self._reach)
        failures = build_failures(
            self._request,
            self._now,
            tagged=TagFilter(self._reach, self._now).build_condition(self._request.selectors),
            refused=[key for pk, key in self._assignments.refusals if pk == task.pk],
            full=[key for key, load in loads.items() if load >= 1],
        )
        # A delegate out of reach is judged by its scope alone.
        within = {rule: in_reach & condition for rule, condition in failures.items()}
        within[RoutingRule.SCOPE] = ~in_reach
        return {rule: within.get(rule, Q(pk__in=[])) for rule in RoutingRule}
