"""What asks for somebody's eye: what deploys now, what failed, what waits for a person, delegates away."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Prefetch, QuerySet

from delegates.connectivity import Connectivity
from delegates.queries.connectivities import connectivity_at
from delegates.queries.delegates import DelegateFacts, facts_of, usable_or_below, with_instances
from deployments.models import Approval, Execution, StageExecution
from deployments.states import TERMINAL, Status
from drift.models import Comparison
from rbac.models import Scope, User
from rbac.policy import visible_below

VIEW: Final = "core_pipeline_view"
VIEW_ENVIRONMENT: Final = "core_environment_view"
MOST: Final = 5
WAITING: Final = (Status.APPROVAL_WAITING, Status.INTERVENTION_WAITING, Status.INPUT_WAITING, Status.PAUSED)
OPEN: Final = tuple(status for status in Status if status not in TERMINAL)
FAILED: Final = (Status.FAILED, Status.EXPIRED, Status.APPROVAL_REJECTED)
AWAY: Final = (Connectivity.DISCONNECTED, Connectivity.LATE)


def executions_here(principal: User, scope: Scope | None) -> QuerySet[Execution]:
    """The executions of a scope that a person may see; asks for scopes first, and once."""
    return visible_below(principal, VIEW, Execution.objects.all(), scope)


def for_rows(executions: QuerySet[Execution]) -> QuerySet[Execution]:
    """The same rows, with what a list shows."""
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    rows = executions.select_related("pipeline", "scope", "started_by").defer("yaml", "pipeline__yaml")
    return rows.prefetch_related(Prefetch("stages", queryset=stages))


@dataclass(frozen=True)
class Delegates:
    """How many delegates serve a scope, by status, and some of those that are away."""

    counts: Mapping[str, int]
    away: list[DelegateFacts]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def connected(self) -> int:
        return self.counts.get(Connectivity.CONNECTED, 0)

    @property
    def away_count(self) -> int:
        return sum(self.counts.get(status, 0) for status in AWAY)


@dataclass(frozen=True)
class UnderWay:
    """What stands at the top of the overview, the newest of each and their numbers."""

    deploying: list[Execution]
    deploying_count: int
    waiting: list[Execution]
    waiting_count: int
    approvals: list[Approval]
    failed: list[Execution]
    failed_count: int
    drifted_count: int
    delegates: Delegates


def under_way(
    principal: User, scope: Scope | None, executions: QuerySet[Execution], now: datetime, days: int
) -> UnderWay:
    """Ask for all of it, in as many queries whatever there is; failures are those of the last `days`."""
    open_ = executions.filter(status__in=OPEN)
    counts = dict(open_.order_by().values_list("status").annotate(number=Count("pk")))
    failed = executions.filter(status__in=FAILED, created_at__gte=now - timedelta(days=days))
    waiting_count = sum(counts.get(status, 0) for status in WAITING)
    return UnderWay(
        deploying=_newest(open_.exclude(status__in=WAITING)),
        deploying_count=sum(counts.values()) - waiting_count,
        waiting=_newest(open_.filter(status__in=WAITING)),
        waiting_count=waiting_count,
        approvals=_approvals(executions),
        failed=_newest(failed),
        failed_count=failed.count(),
        drifted_count=_drifted(principal, scope).count(),
        delegates=_delegates(principal, scope, now),
    )


def _drifted(principal: User, scope: Scope | None) -> QuerySet[Comparison]:
    rows = Comparison.objects.filter(seen__gone_at=None, state=Comparison.State.DRIFTED)
    return visible_below(principal, VIEW_ENVIRONMENT, rows, scope)


def _newest(executions: QuerySet[Execution]) -> list[Execution]:
    return list(for_rows(executions).order_by("-created_at", "-pk")[:MOST])


def _approvals(executions: QuerySet[Execution]) -> list[Approval]:
    """The newest approvals that nobody has given yet."""
    waiting = Approval.objects.filter(status=Approval.Status.WAITING, execution__in=executions.values("pk"))
    rows = waiting.select_related("execution__pipeline", "step").defer(
        "ahead", "execution__yaml", "execution__pipeline__yaml"
    )
    return list(rows.order_by("-asked_at", "-pk")[:MOST])


def _delegates(principal: User, scope: Scope | None, now: datetime) -> Delegates:
    found = usable_or_below(principal, scope).annotate(connectivity=connectivity_at(now))
    counted = found.order_by().values_list("connectivity").annotate(number=Count("pk"))
    away = found.filter(connectivity__in=AWAY).order_by("name", "pk")[:MOST]
    return Delegates(dict(counted), facts_of(with_instances(away), now))


def names_of(execution: Execution) -> list[dict[str, Any]]:
    """What each stage of an execution deploys, and to which environment."""
    return [
        {
            "service": stage.values.get("service", {}).get("identifier"),
            "environment": stage.values.get("env", {}).get("identifier"),
        }
        for stage in execution.stages.all()
    ]
