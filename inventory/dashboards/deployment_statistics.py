"""Statistics of deployments per UTC day: results, durations, failure rate, time to restore."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from statistics import median, median_low
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import (
    Case,
    DateTimeField,
    F,
    Field,
    Func,
    IntegerField,
    Q,
    QuerySet,
    Value,
    When,
)

from deployments.execution import queries as execution_queries
from deployments.models import Execution
from steps.states import TERMINAL_STATUSES, Status

RANGES: Final = (7, 14, 30, 90)
DEFAULT_RANGE: Final = 14
DAY_SECONDS: Final = 24 * 3600

SUCCEEDED, FAILED, ROLLED_BACK, ABORTED = "succeeded", "failed", "rolled_back", "aborted"
RESULTS: Final = (SUCCEEDED, FAILED, ROLLED_BACK, ABORTED)


def _build_result_case(
    kind: Field, reverted: Any, rolled_back: Any, succeeded: Any, aborted: Any, failed: Any
) -> Case:
    """Build a CASE on the end of an execution; `reverted` is for a manual rollback afterwards."""
    return Case(
        When(status=Status.ROLLED_BACK, then=reverted),
        When(outcome__in=execution_queries.ROLLED_BACK_OUTCOMES, then=rolled_back),
        When(execution_queries.SUCCEEDED, then=succeeded),
        When(status__in=(Status.ABORTED, Status.SKIPPED), then=aborted),
        default=failed,
        output_field=kind,
    )


def _build_result_expression() -> Case:
    """Build the expression of a result, as its index in `RESULTS`."""
    names = (ROLLED_BACK, ROLLED_BACK, SUCCEEDED, ABORTED, FAILED)
    positions = [Value(RESULTS.index(name)) for name in names]
    return _build_result_case(IntegerField(), *positions)


def _build_start_expression() -> Case:
    """Build the expression of the start time: the creation for a success, otherwise the start.

    None for aborted and never started executions, and for manual rollbacks of a success, where the start
    of the problem is unknown.
    """
    created, started = F("created_at"), F("started_at")
    return _build_result_case(DateTimeField(), Value(None), started, created, Value(None), started)


def get_range_start(now: datetime, days: int) -> datetime:
    """Return the start, in UTC, of the first of so many days."""
    first_day = now.astimezone(UTC).date() - timedelta(days=days - 1)
    return datetime(first_day.year, first_day.month, first_day.day, tzinfo=UTC)


def build_failure_filter(now: datetime, days: int) -> Q:
    """Return the filter of executions that count as failed or rolled back."""
    return Q(execution_queries.FAILED, status__in=TERMINAL_STATUSES, ended_at__gte=get_range_start(now, days))


@dataclass
class DeploymentNumbers:
    """The numbers of a day, or of all days; times in seconds, None without any."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    deployment_duration: float | None = None
    restore_time: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def failure_rate(self) -> float | None:
        """Return the share from 0 to 1 that failed or was rolled back, without aborted ones."""
        completed = self.total - self.counts[ABORTED]
        return (self.counts[FAILED] + self.counts[ROLLED_BACK]) / completed if completed else None


@dataclass
class DeploymentStatistics:
    """The numbers by day, the oldest first, and in total."""

    days: dict[date, DeploymentNumbers]
    all: DeploymentNumbers


class _EpochSeconds(Func):
    """A moment as whole seconds since 1970, the fastest type to fetch."""

    template = "FLOOR(DATE_PART('epoch', %(expressions)s))::bigint"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER)"
        return self.as_sql(compiler, connection, template=template, **context)

    def get_db_converters(self, connection: Any) -> list[Any]:
        """Return no converters, since one call per value would double the time."""
        return []


def compute_deployment_statistics(
    executions: QuerySet[Execution], now: datetime, days: int
) -> DeploymentStatistics:
    """Compute the statistics of the `days` up to `now`; one query on an index alone."""
    since = get_range_start(now, days)
    first_day = since.date()
    # The order of the index, so the database need not sort.
    ended = executions.filter(status__in=TERMINAL_STATUSES, ended_at__gte=since).order_by(
        "ended_at", "status", "outcome", "pipeline_id"
    )
    columns = (
        _build_result_expression(),
        _EpochSeconds("ended_at"),
        _EpochSeconds(_build_start_expression()),
    )
    statistics = DeploymentStatistics(
        {first_day + timedelta(days=number): DeploymentNumbers() for number in range(days)},
        DeploymentNumbers(),
    )
    builder = _StatisticsBuilder(statistics, int(since.timestamp()) // DAY_SECONDS)
    builder.add_executions(_fetch_rows(ended.values_list("pipeline_id", *columns)))
    builder.finish()
    return statistics


def _fetch_rows(query: "QuerySet[Execution, Any]") -> list[tuple[Any, ...]]:
    """Fetch all rows at once; the ORM's chunks of a hundred take half as long again."""
    try:
        statement = query.query.sql_with_params()
    except EmptyResultSet:
        # The reader sees no scope.
        return []
    with connection.cursor() as cursor:
        cursor.execute(*statement)
        return cursor.fetchall()


class _StatisticsBuilder:
    """Sums of executions in the order of their ends; successes are the cheapest."""

    def __init__(self, statistics: DeploymentStatistics, first_day: int) -> None:
        self._all, self._days = statistics.all, list(statistics.days.values())
        self._first_day = first_day
        # By day: the durations of successes, and the times to restore.
        self._lead: list[list[int]] = [[] for _ in self._days]
        self._restore: list[list[int]] = [[] for _ in self._days]
        # Pipelines whose last execution failed, and the starts of failures since the last success.
        self._broken: set[int] = set()
        self._failing: defaultdict[int, list[int]] = defaultdict(list)

    def add_executions(self, rows: Iterable[tuple[int, int, int, int | None]]) -> None:
        """Add executions: pipeline, result, end and start.

        Ends after the last day, from a clock that is ahead, count in the total only.
        """
        days, first_day, lead, failing = len(self._days), self._first_day, self._lead, self._failing
        for pipeline, result, ended, started in rows:
            day = ended // DAY_SECONDS - first_day
            if day >= days:
                self._all.counts[RESULTS[result]] += 1
            elif result or started is None:
                self._record_failure(day, pipeline, RESULTS[result], ended, started)
            else:
                lead[day].append(ended - started)
                if pipeline in failing:
                    self._record_recovery(day, pipeline, ended)

    def _record_failure(self, day: int, pipeline: int, result: str, ended: int, started: int | None) -> None:
        """Record a failure; the time to restore starts with the first one of the pipeline."""
        self._days[day].counts[result] += 1
        if started is None:
            return
        if result == ROLLED_BACK:
            self._restore[day].append(ended - started)
        elif result == FAILED and pipeline not in self._broken:
            self._failing[pipeline].append(started)
        if result == FAILED:
            self._broken.add(pipeline)
        else:
            self._broken.discard(pipeline)

    def _record_recovery(self, day: int, pipeline: int, ended: int) -> None:
        """Record a recovery, by rollback or by a later success."""
        self._restore[day] += [ended - start for start in self._failing.pop(pipeline)]
        self._broken.discard(pipeline)

    def finish(self) -> None:
        """Compute sums and medians by day and in total."""
        for numbers, lead, restore in zip(self._days, self._lead, self._restore, strict=True):
            numbers.counts[SUCCEEDED] += len(lead)
            for result, number in numbers.counts.items():
                self._all.counts[result] += number
            _set_medians(numbers, lead, restore)
        _set_medians(self._all, list(chain(*self._lead)), list(chain(*self._restore)))


def _set_medians(numbers: DeploymentNumbers, lead: list[int], restore: list[int]) -> None:
    # The lower median is the duration of a real execution.
    numbers.deployment_duration = float(median_low(lead)) if lead else None
    numbers.restore_time = float(median(restore)) if restore else None
