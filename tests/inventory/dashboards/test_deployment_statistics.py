"""The figures of the overview count what executions left behind, each for the day on which it ended."""

from datetime import UTC, datetime, timedelta

import pytest

from deployments.models import Execution
from inventory.dashboards.deployment_statistics import build_failure_filter, compute_deployment_statistics
from pipelines.models import Pipeline
from rbac.models import Scope
from steps.states import Outcome, Status

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
HOUR = 3600


@pytest.fixture
def pipeline(project: Scope) -> Pipeline:
    return Pipeline.objects.create(scope=project, identifier="p", name="P", yaml="")


def create_execution(
    pipeline: Pipeline, days_ago: float, status: Status, outcome: Outcome | str = "", *, hours: float = 1
) -> Execution:
    """Create an execution that ended `days_ago` days before NOW and took `hours` hours."""
    ended_at = NOW - timedelta(days=days_ago)
    number = Execution.objects.filter(pipeline=pipeline).count() + 1
    execution = Execution.objects.create(
        scope=pipeline.scope,
        pipeline=pipeline,
        number=number,
        yaml="",
        status=status,
        outcome=outcome,
        started_at=ended_at - timedelta(hours=hours),
        ended_at=ended_at,
    )
    Execution.objects.filter(pk=execution.pk).update(created_at=ended_at - timedelta(hours=hours))
    return execution


def test_each_day_counts_what_ended_on_it_by_how_it_ended(pipeline: Pipeline) -> None:
    create_execution(pipeline, 0, Status.SUCCESS, Outcome.COMPLETED)
    create_execution(pipeline, 0, Status.IGNORE_FAILED, Outcome.COMPLETED)
    create_execution(pipeline, 1, Status.FAILED, Outcome.FAILED)
    create_execution(pipeline, 1, Status.FAILED, Outcome.ROLLED_BACK)
    create_execution(pipeline, 1, Status.EXPIRED)
    create_execution(pipeline, 1, Status.ABORTED, Outcome.ABORTED)
    create_execution(pipeline, 7, Status.SUCCESS, Outcome.COMPLETED)
    statistics = compute_deployment_statistics(Execution.objects.all(), NOW, 7)
    today, before = [list(day.counts.values()) for day in list(statistics.days.values())[:-3:-1]]
    assert today == [2, 0, 0, 0]
    assert before == [0, 2, 1, 1]
    assert list(statistics.all.counts.values()) == [2, 2, 1, 1], "the eighth day back is not asked for"
    assert statistics.all.failure_rate == pytest.approx(3 / 5), (
        "what a person aborted says nothing of the change"
    )
    assert len(statistics.days) == 7


def test_what_still_runs_is_not_counted(pipeline: Pipeline) -> None:
    Execution.objects.create(
        scope=pipeline.scope, pipeline=pipeline, number=1, yaml="", status=Status.RUNNING, due_at=NOW
    )
    statistics = compute_deployment_statistics(Execution.objects.all(), NOW, 7)
    assert (statistics.all.total, statistics.all.failure_rate, statistics.all.deployment_duration) == (
        0,
        None,
        None,
    )


def test_the_deployment_duration_is_the_median_of_those_that_succeeded(pipeline: Pipeline) -> None:
    for hours in (1, 2, 9):
        create_execution(pipeline, 0, Status.SUCCESS, Outcome.COMPLETED, hours=hours)
    for hours in (20, 30):
        create_execution(pipeline, 1, Status.SUCCESS, Outcome.COMPLETED, hours=hours)
    create_execution(pipeline, 0, Status.FAILED, Outcome.FAILED, hours=50)
    statistics = compute_deployment_statistics(Execution.objects.all(), NOW, 7)
    days = list(statistics.days.values())
    assert (days[-1].deployment_duration, days[-2].deployment_duration) == (2 * HOUR, 20 * HOUR)
    assert statistics.all.deployment_duration == 9 * HOUR


def test_the_time_to_restore_runs_from_the_first_failure_to_the_next_success(pipeline: Pipeline) -> None:
    create_execution(pipeline, 3, Status.SUCCESS, Outcome.COMPLETED)
    create_execution(pipeline, 2, Status.FAILED, Outcome.FAILED)
    create_execution(pipeline, 1.5, Status.FAILED, Outcome.FAILED)
    create_execution(pipeline, 1.2, Status.ABORTED, Outcome.ABORTED)
    create_execution(pipeline, 1, Status.SUCCESS, Outcome.COMPLETED)
    create_execution(pipeline, 0, Status.FAILED, Outcome.FAILED)
    statistics = compute_deployment_statistics(Execution.objects.all(), NOW, 7)
    assert statistics.all.restore_time == 25 * HOUR, (
        "one hour of the failed run, and a day; the last is still broken"
    )
    assert list(statistics.days.values())[-2].restore_time == 25 * HOUR


def test_a_rollback_restores_by_itself(pipeline: Pipeline) -> None:
    create_execution(pipeline, 2, Status.FAILED, Outcome.ROLLED_BACK, hours=0.5)
    create_execution(pipeline, 1, Status.SUCCESS, Outcome.COMPLETED)
    assert compute_deployment_statistics(Execution.objects.all(), NOW, 7).all.restore_time == HOUR / 2


def test_the_success_of_another_pipeline_restores_nothing(pipeline: Pipeline) -> None:
    other = Pipeline.objects.create(scope=pipeline.scope, identifier="q", name="Q", yaml="")
    create_execution(pipeline, 2, Status.FAILED, Outcome.FAILED)
    create_execution(other, 1, Status.SUCCESS, Outcome.COMPLETED)
    assert compute_deployment_statistics(Execution.objects.all(), NOW, 7).all.restore_time is None


def test_the_figures_take_one_query(pipeline: Pipeline, django_assert_num_queries: object) -> None:
    create_execution(pipeline, 0, Status.SUCCESS, Outcome.COMPLETED)
    with django_assert_num_queries(1):  # type: ignore[operator]
        compute_deployment_statistics(Execution.objects.all(), NOW, 90)


def test_who_may_see_nothing_is_told_of_nothing() -> None:
    statistics = compute_deployment_statistics(Execution.objects.filter(scope__in=[]), NOW, 7)
    assert [day.total for day in (statistics.all, *statistics.days.values())] == [0] * 8


def test_what_a_person_rolled_back_after_a_good_end_counts_once_and_as_rolled_back(
    pipeline: Pipeline,
) -> None:
    create_execution(pipeline, 1, Status.ROLLED_BACK, Outcome.ROLLED_BACK, hours=30)
    statistics = compute_deployment_statistics(Execution.objects.all(), NOW, 7).all
    assert (statistics.total, statistics.counts["rolled_back"], statistics.counts["succeeded"]) == (1, 1, 0)
    assert (statistics.failure_rate, statistics.restore_time) == (1.0, None)


def test_the_tile_has_what_the_figures_count_as_failed_or_rolled_back(pipeline: Pipeline) -> None:
    for status, outcome in (
        (Status.FAILED, Outcome.FAILED),
        (Status.FAILED, Outcome.ROLLED_BACK),
        (Status.ROLLED_BACK, Outcome.ROLLED_BACK),
        (Status.SUCCESS, Outcome.COMPLETED),
        (Status.IGNORE_FAILED, Outcome.COMPLETED),
        (Status.ABORTED, Outcome.ABORTED),
        (Status.EXPIRED, Outcome.TIMED_OUT),
    ):
        create_execution(pipeline, 1, status, outcome)
    create_execution(pipeline, 9, Status.FAILED, Outcome.FAILED)
    counts = compute_deployment_statistics(Execution.objects.all(), NOW, 7).all.counts
    failed_executions = Execution.objects.filter(build_failure_filter(NOW, 7))
    assert failed_executions.count() == counts["failed"] + counts["rolled_back"] == 4
