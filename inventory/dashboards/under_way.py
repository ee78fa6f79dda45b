"""What asks for somebody's eye: what deploys now, what failed, what waits for a person, delegates away."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Prefetch, QuerySet, prefetch_related_objects

from delegates.queries.away import Presence, presence
from delegates.queries.delegates import usable_or_below
from deployments.models import Approval, Execution, StageExecution
from inventory.dashboards.figures import failed_or_rolled_back
from inventory.models.drift import Comparison
from rbac.models import Scope, User
from rbac.policy import visible_below
from steps.states import TERMINAL, Status

VIEW: Final = "core_pipeline_view"
VIEW_ENVIRONMENT: Final = "core_environment_view"
MOST: Final = 5
WAITING: Final = (Status.APPROVAL_WAITING, Status.INTERVENTION_WAITING, Status.INPUT_WAITING, Status.PAUSED)
OPEN: Final = tuple(status for status in Status if status not in TERMINAL)
GOING_ON: Final = tuple(status for status in OPEN if status not in WAITING)
# What a tile says of an execution.
SHOWN: Final = (
    "number",
    "status",
    "outcome",
    "failure",
    "created_at",
    "pipeline__identifier",
    "pipeline__name",
)


def executions_here(principal: User, scope: Scope | None) -> QuerySet[Execution]:
    """The executions of a scope that a person may see; asks for scopes first, and once."""
    return visible_below(principal, VIEW, Execution.objects.all(), scope)


@dataclass(frozen=True)
class UnderWay:
    """What stands at the top of the overview, the newest of each and their numbers."""

    deploying: list[Execution]
    deploying_count: int
    waiting: list[Execution]
    waiting_count: int
    has_approvals: bool
    failed: list[Execution]
    failed_count: int
    drifted_count: int
    delegates: Presence


def under_way(
    principal: User, scope: Scope | None, executions: QuerySet[Execution], now: datetime, days: int
) -> UnderWay:
    """Ask for all of it, in as many queries whatever there is; failures are those of the last `days`."""
    open_ = executions.filter(status__in=OPEN)
    counts = dict(open_.order_by().values_list("status").annotate(number=Count("pk")))
    deploying = _newest(executions.filter(status__in=GOING_ON))
    waiting = _newest(executions.filter(status__in=WAITING))
    _add_targets(deploying + waiting)
    failed = executions.filter(failed_or_rolled_back(now, days))
    waiting_count = sum(counts.get(status, 0) for status in WAITING)
    return UnderWay(
        deploying=deploying,
        deploying_count=sum(counts.values()) - waiting_count,
        waiting=waiting,
        waiting_count=waiting_count,
        has_approvals=_waiting_approvals(executions).exists(),
        failed=_newest(failed, by="-ended_at"),
        failed_count=failed.count(),
        drifted_count=_drifted(principal, scope).count(),
        delegates=presence(usable_or_below(principal, scope), now, MOST),
    )


def _drifted(principal: User, scope: Scope | None) -> QuerySet[Comparison]:
    rows = Comparison.objects.filter(seen__gone_at=None, state=Comparison.State.DRIFTED)
    return visible_below(principal, VIEW_ENVIRONMENT, rows, scope)


def _newest(executions: QuerySet[Execution], by: str = "-created_at") -> list[Execution]:
    """The newest of these, with what a tile says of each."""
    rows = executions.select_related("pipeline").only(*SHOWN)
    return list(rows.order_by(by, "-pk")[:MOST])


def _add_targets(executions: list[Execution]) -> None:
    """Read the stages of all of them, which say what is deployed and where to."""
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    prefetch_related_objects(executions, Prefetch("stages", queryset=stages))


def _waiting_approvals(executions: QuerySet[Execution]) -> QuerySet[Approval]:
    return Approval.objects.filter(status=Approval.Status.WAITING, execution__in=executions.values("pk"))
