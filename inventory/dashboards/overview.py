"""Overview of a scope: active, failed and waiting executions, drift, disconnected delegates."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Exists, OuterRef, Prefetch, QuerySet, prefetch_related_objects

from delegates.queries.delegates import DelegatePresence, count_presence, list_visible_delegates
from deployments.models import Approval, Execution, StageExecution
from inventory.dashboards.deployment_statistics import build_failure_filter
from inventory.models.drift import DriftComparison
from rbac.models import Scope, User
from rbac.policy import filter_visible
from steps.states import OPEN_STATUSES, Status

VIEW_PIPELINE: Final = "core_pipeline_view"
VIEW_ENVIRONMENT: Final = "core_environment_view"
TILE_SIZE: Final = 5
WAITING_STATUSES: Final = (
    Status.APPROVAL_WAITING,
    Status.INTERVENTION_WAITING,
    Status.INPUT_WAITING,
    Status.PAUSED,
)
ACTIVE_STATUSES: Final = tuple(status for status in OPEN_STATUSES if status not in WAITING_STATUSES)
# The fields of an execution on a tile.
TILE_FIELDS: Final = (
    "number",
    "status",
    "outcome",
    "failure",
    "created_at",
    "pipeline__identifier",
    "pipeline__name",
)


def list_scope_executions(principal: User, scope: Scope | None) -> QuerySet[Execution]:
    """Return the visible executions of a scope; permissions are loaded once."""
    return filter_visible(principal, VIEW_PIPELINE, Execution.objects.all(), scope)


@dataclass(frozen=True)
class OverviewTiles:
    """The tiles of the overview: counts, and the newest of each."""

    deploying: list[Execution]
    deploying_count: int
    waiting: list[Execution]
    waiting_count: int
    has_approvals: bool
    failed: list[Execution]
    failed_count: int
    drifted_count: int
    delegates: DelegatePresence


def get_overview_tiles(
    principal: User, scope: Scope | None, executions: QuerySet[Execution], now: datetime, days: int
) -> OverviewTiles:
    """Load the tiles in a fixed number of queries; failures are those of the last `days`."""
    open_ = executions.filter(status__in=OPEN_STATUSES)
    counts = dict(open_.order_by().values_list("status").annotate(number=Count("pk")))
    deploying = _list_newest(executions.filter(status__in=ACTIVE_STATUSES))
    waiting = _list_newest(executions.filter(status__in=WAITING_STATUSES))
    _prefetch_stages(deploying + waiting)
    failed = executions.filter(build_failure_filter(now, days))
    waiting_count = sum(counts.get(status, 0) for status in WAITING_STATUSES)
    return OverviewTiles(
        deploying=deploying,
        deploying_count=sum(counts.values()) - waiting_count,
        waiting=waiting,
        waiting_count=waiting_count,
        has_approvals=_filter_waiting_approvals(executions).exists(),
        failed=_list_newest(failed, by="-ended_at"),
        failed_count=failed.count(),
        drifted_count=_filter_drifted(principal, scope).count(),
        delegates=count_presence(
            list_visible_delegates(principal, scope).filter(archived_at=None), now, TILE_SIZE
        ),
    )


def _filter_drifted(principal: User, scope: Scope | None) -> QuerySet[DriftComparison]:
    rows = DriftComparison.objects.filter(ecs_service__gone_at=None, state=DriftComparison.State.DRIFTED)
    return filter_visible(principal, VIEW_ENVIRONMENT, rows, scope)


def _list_newest(executions: QuerySet[Execution], by: str = "-created_at") -> list[Execution]:
    """Return the newest executions with the fields of a tile."""
    rows = executions.select_related("pipeline").only(*TILE_FIELDS)
    return list(rows.order_by(by, "-pk")[:TILE_SIZE])


def _prefetch_stages(executions: list[Execution]) -> None:
    """Load the stages, which name services and environments."""
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    prefetch_related_objects(executions, Prefetch("stages", queryset=stages))


def _filter_waiting_approvals(executions: QuerySet[Execution]) -> QuerySet[Approval]:
    # EXISTS, as SQLite would begin with all visible executions.
    is_visible = Exists(executions.filter(pk=OuterRef("execution_id")))
    return Approval.objects.filter(is_visible, status=Approval.Status.WAITING)
