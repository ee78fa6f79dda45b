"""Statistics of deployments per day: results, durations, failure rate, time to restore.

A day is one of UTC.
"""

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

from deployments.models import Execution
from steps.states import TERMINAL_STATUSES, Outcome, Status

RANGES: Final = (7, 14, 30, 90)
DEFAULT_RANGE: Final = 14
DAY_SECONDS: Final = 24 * 3600

SUCCEEDED, FAILED, ROLLED_BACK, ABORTED = "succeeded", "failed", "rolled_back", "aborted"
RESULTS: Final = (SUCCEEDED, FAILED, ROLLED_BACK, ABORTED)
ROLLED_BACK_OUTCOMES: Final = (Outcome.ROLLED_BACK, Outcome.ROLLED_BACK_BY_AWS)


SUCCEEDED_CONDITION: Final = Q(status=Status.SUCCESS) | Q(
    status=Status.IGNORE_FAILED, outcome=Outcome.COMPLETED
)


def _build_result_case(
    kind: Field, taken_back: Any, rolled_back: Any, succeeded: Any, aborted: Any, failed: Any
) -> Case:
    """One of these, by how an execution ended; `taken_back` where a person rolled it back afterwards."""
    return Case(
        When(status=Status.ROLLED_BACK, then=taken_back),
        When(outcome__in=ROLLED_BACK_OUTCOMES, then=rolled_back),
        When(SUCCEEDED_CONDITION, then=succeeded),
        When(status__in=(Status.ABORTED, Status.SKIPPED), then=aborted),
        default=failed,
        output_field=kind,
    )


def _build_result_expression() -> Case:
    """How an execution ended, as its place in `RESULTS`."""
    names = (ROLLED_BACK, ROLLED_BACK, SUCCEEDED, ABORTED, FAILED)
    places = [Value(RESULTS.index(name)) for name in names]
    return _build_result_case(IntegerField(), *places)


def _build_start_expression() -> Case:
    """What the time of an execution is counted from: its making where all went well, else its start.

    None where it was aborted or has never started, and where a person rolled back what had ended well: when
    that began to be wrong nobody knows.
    """
    created, started = F("created_at"), F("started_at")
    return _build_result_case(DateTimeField(), Value(None), started, created, Value(None), started)


def get_range_start(now: datetime, days: int) -> datetime:
    """The beginning, in UTC, of the first of so many days up to now."""
    first = now.astimezone(UTC).date() - timedelta(days=days - 1)
    return datetime(first.year, first.month, first.day, tzinfo=UTC)


def build_failure_filter(now: datetime, days: int) -> Q:
    """The executions that the figures of these days count as failed or as rolled back."""
    was_put_back = Q(outcome__in=ROLLED_BACK_OUTCOMES) | Q(status=Status.ROLLED_BACK)
    failed = ~SUCCEEDED_CONDITION & ~Q(status__in=(Status.ABORTED, Status.SKIPPED))
    return Q(was_put_back | failed, status__in=TERMINAL_STATUSES, ended_at__gte=get_range_start(now, days))


@dataclass
class DeploymentNumbers:
    """What is known of a day, or of all days together; times in seconds, None where there is nothing."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))
    deployment_duration: float | None = None
    restore_time: float | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def failure_rate(self) -> float | None:
        """The share from 0 to 1 that failed or was rolled back, of those that nobody aborted."""
        judged = self.total - self.counts[ABORTED]
        return (self.counts[FAILED] + self.counts[ROLLED_BACK]) / judged if judged else None


@dataclass
class DeploymentStatistics:
    """The numbers of each day of a range, the oldest first, and of all of them."""

    days: dict[date, DeploymentNumbers]
    all: DeploymentNumbers


class _EpochSeconds(Func):
    """A moment as whole seconds since 1970: what a database hands over fastest, many at once."""

    template = "FLOOR(DATE_PART('epoch', %(expressions)s))::bigint"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "CAST(strftime('%%%%s', %(expressions)s) AS INTEGER)"
        return self.as_sql(compiler, connection, template=template, **context)

    def get_db_converters(self, connection: Any) -> list[Any]:
        """None: they come as integers, a function called for each takes as long as the database."""
        return []


def compute_deployment_statistics(
    executions: QuerySet[Execution], now: datetime, days: int
) -> DeploymentStatistics:
    """Tell how `executions` ended in the `days` up to `now`; one query, which an index alone answers."""
    since = get_range_start(now, days)
    first = since.date()
    # The order of the index, which nobody has to sort.
    ended = executions.filter(status__in=TERMINAL_STATUSES, ended_at__gte=since).order_by(
        "ended_at", "status", "outcome", "pipeline_id"
    )
    columns = (
        _build_result_expression(),
        _EpochSeconds("ended_at"),
        _EpochSeconds(_build_start_expression()),
    )
    found = DeploymentStatistics(
        {first + timedelta(days=number): DeploymentNumbers() for number in range(days)}, DeploymentNumbers()
    )
    counted = _StatisticsBuilder(found, int(since.timestamp()) // DAY_SECONDS)
    counted.add_executions(_fetch_rows(ended.values_list("pipeline_id", *columns)))
    counted.finish()
    return found


def _fetch_rows(wanted: "QuerySet[Execution, Any]") -> list[tuple[Any, ...]]:
    """All at once: the framework hands over a hundred at a time, which takes half as long again."""
    try:
        asked = wanted.query.sql_with_params()
    except EmptyResultSet:
        # Who may see no scope at all.
        return []
    with connection.cursor() as cursor:
        cursor.execute(*asked)
        return cursor.fetchall()


class _StatisticsBuilder:
    """Adds up executions in the order of their ends; most have ended well, and cost the least."""

    def __init__(self, found: DeploymentStatistics, first_day: int) -> None:
        self._all, self._days = found.all, list(found.days.values())
        self._first_day = first_day
        # Of each day how long those took that ended well, and how long it took until all was well again.
        self._lead: list[list[int]] = [[] for _ in self._days]
        self._restore: list[list[int]] = [[] for _ in self._days]
        # Pipelines whose last run failed, and of each when what failed since the last success was started.
        self._broken: set[int] = set()
        self._failing: defaultdict[int, list[int]] = defaultdict(list)

    def add_executions(self, rows: Iterable[tuple[int, int, int, int | None]]) -> None:
        """Count executions: of which pipeline, how it ended, when, and since when.

        What ends after the last day, by a clock that is ahead, counts for no day.
        """
        days, first_day, lead, failing = len(self._days), self._first_day, self._lead, self._failing
        for pipeline, place, ended, began in rows:
            day = ended // DAY_SECONDS - first_day
            if day >= days:
                self._all.counts[RESULTS[place]] += 1
            elif place or began is None:
                self._record_failure(day, pipeline, RESULTS[place], ended, began)
            else:
                lead[day].append(ended - began)
                if pipeline in failing:
                    self._record_recovery(day, pipeline, ended)

    def _record_failure(self, day: int, pipeline: int, result: str, ended: int, began: int | None) -> None:
        """Each time that a pipeline began to fail begins with the start of the first that failed."""
        self._days[day].counts[result] += 1
        if began is None:
            return
        if result == ROLLED_BACK:
            self._restore[day].append(ended - began)
        elif result == FAILED and pipeline not in self._broken:
            self._failing[pipeline].append(began)
        if result == FAILED:
            self._broken.add(pipeline)
        else:
            self._broken.discard(pipeline)

    def _record_recovery(self, day: int, pipeline: int, ended: int) -> None:
        """It ends as that is rolled back or another run succeeds."""
        self._restore[day] += [ended - start for start in self._failing.pop(pipeline)]
        self._broken.discard(pipeline)

    def finish(self) -> None:
        """Work out the sums, and the times in the middle: of each day, and of all days."""
        for numbers, lead, restore in zip(self._days, self._lead, self._restore, strict=True):
            numbers.counts[SUCCEEDED] += len(lead)
            for result, number in numbers.counts.items():
                self._all.counts[result] += number
            _set_medians(numbers, lead, restore)
        _set_medians(self._all, list(chain(*self._lead)), list(chain(*self._restore)))


def _set_medians(numbers: DeploymentNumbers, lead: list[int], restore: list[int]) -> None:
    # The lower of the two in the middle: an execution that was, not one between two.
    numbers.deployment_duration = float(median_low(lead)) if lead else None
    numbers.restore_time = float(median(restore)) if restore else None
