"""How deployments went, day by day: how many, how they ended, how long they took, how soon all was well.

A day is one of UTC. Every number comes out of the database's own counting, whatever the number of executions.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Any, Final

from django.db.models import (
    BooleanField,
    Case,
    Count,
    DateTimeField,
    F,
    Min,
    Q,
    QuerySet,
    RowRange,
    Value,
    When,
    Window,
)
from django.db.models.fields import CharField, DurationField
from django.db.models.functions import Lag, RowNumber, TruncDate

from deployments.models import Execution
from deployments.states import TERMINAL, Outcome, Status

RANGES: Final = (7, 14, 30, 90)
USUAL_RANGE: Final = 14

SUCCEEDED, FAILED, ROLLED_BACK, ABORTED = "succeeded", "failed", "rolled_back", "aborted"
ENDINGS: Final = (SUCCEEDED, FAILED, ROLLED_BACK, ABORTED)
RESTORED: Final = (Outcome.ROLLED_BACK, Outcome.ROLLED_BACK_BY_AWS)


def _result() -> Case:
    """How an execution ended, as one of `ENDINGS`; whoever ended it, what was put back counts as that."""
    went_well = Q(status=Status.SUCCESS) | Q(status=Status.IGNORE_FAILED, outcome=Outcome.COMPLETED)
    return Case(
        When(outcome__in=RESTORED, then=Value(ROLLED_BACK)),
        When(status=Status.ROLLED_BACK, then=Value(ROLLED_BACK)),
        When(went_well, then=Value(SUCCEEDED)),
        When(status__in=(Status.ABORTED, Status.SKIPPED), then=Value(ABORTED)),
        default=Value(FAILED),
        output_field=CharField(),
    )


@dataclass
class Numbers:
    """What is known of a day, or of all days together; times in seconds, None where there is nothing."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDINGS, 0))
    lead_time: float | None = None
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
class Figures:
    """The numbers of each day of a range, the oldest first, and of all of them."""

    days: dict[date, Numbers]
    all: Numbers


def figures(executions: QuerySet[Execution], now: datetime, days: int) -> Figures:
    """Count how `executions` ended in the `days` up to `now`; three queries."""
    today = now.astimezone(UTC).date()
    first = today - timedelta(days=days - 1)
    since = datetime(first.year, first.month, first.day, tzinfo=UTC)
    ended = executions.filter(status__in=TERMINAL, ended_at__gte=since).order_by()
    ended = ended.annotate(day=TruncDate("ended_at", tzinfo=UTC), result=_result())
    found = Figures({first + timedelta(days=number): Numbers() for number in range(days)}, Numbers())
    for day, result, number in ended.values_list("day", "result").annotate(number=Count("pk")):
        for numbers in (found.all, found.days.get(day)):
            if numbers:
                numbers.counts[result] += number
    for day, is_of_all, lead in _lead_times(ended):
        numbers = found.all if is_of_all else found.days.get(day)
        if numbers:
            numbers.lead_time = lead
    _note_restore_times(found, ended)
    return found


def _lead_times(ended: QuerySet[Execution]) -> Iterator[tuple[date, bool, float]]:
    """The median time from the start of a run to its good end: of each day, and of all (True) at any day."""
    took = F("ended_at") - F("created_at")
    rows = ended.filter(Q(result=SUCCEEDED)).annotate(
        took=Case(When(pk__isnull=False, then=took), output_field=DurationField()),
    )
    numbered = rows.annotate(
        of_day=Window(RowNumber(), partition_by="day", order_by="took"),
        in_day=Window(Count("pk"), partition_by="day"),
        of_all=Window(RowNumber(), order_by="took"),
        in_all=Window(Count("pk")),
    )
    # The lower of the two in the middle: an execution that was, not one between two.
    middle_of_day, middle = Q(of_day=(F("in_day") + 1) / 2), Q(of_all=(F("in_all") + 1) / 2)
    columns = ("day", "took", "of_day", "in_day", "of_all", "in_all")
    for day, length, of_day, in_day, of_all, in_all in numbered.filter(middle_of_day | middle).values_list(
        *columns
    ):
        if of_day == (in_day + 1) // 2:
            yield day, False, length.total_seconds()
        if of_all == (in_all + 1) // 2:
            yield day, True, length.total_seconds()


def _note_restore_times(found: Figures, ended: QuerySet[Execution]) -> None:
    by_day: defaultdict[date, list[float]] = defaultdict(list)
    for day, seconds in _restored(ended):
        by_day[day].append(seconds)
    for day, times in by_day.items():
        if day in found.days:
            found.days[day].restore_time = median(times)
    every = [seconds for times in by_day.values() for seconds in times]
    found.all.restore_time = median(every) if every else None


def _restored(ended: QuerySet[Execution]) -> Iterator[tuple[date, float]]:
    """For each time that a pipeline began to fail: the day it was well again, and after how long.

    It begins with the start of the first that failed, and ends as that is rolled back or another succeeds.
    """
    of_pipeline: dict[str, Any] = {"partition_by": "pipeline_id", "order_by": ("ended_at", "pk")}
    succeeded_at = Case(When(result=SUCCEEDED, then=F("ended_at")), output_field=DateTimeField(null=True))
    judged = (
        ended.exclude(Q(result=ABORTED)).filter(started_at__isnull=False).annotate(succeeded_at=succeeded_at)
    )
    rows = judged.annotate(
        before=Window(Lag("result"), **of_pipeline),
        next_success=Window(Min("succeeded_at"), frame=RowRange(start=0, end=None), **of_pipeline),
    )
    began = Case(
        When(result=ROLLED_BACK, then=Value(True)),
        When(Q(result=FAILED) & (Q(before__isnull=True) | ~Q(before=FAILED)), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    columns = ("result", "started_at", "ended_at", "next_success")
    for result, started, ended_at, next_success in (
        rows.annotate(began=began).filter(began=True).values_list(*columns)
    ):
        well_at = ended_at if result == ROLLED_BACK else next_success
        if well_at is not None:
            yield well_at.astimezone(UTC).date(), (well_at - started).total_seconds()
