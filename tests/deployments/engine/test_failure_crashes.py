"""A worker that dies between a failure and what is done about it: the decision was taken once, or not yet."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StepExecution
from pipelines.models import Pipeline
from tests.deployments.conftest import drive
from tests.deployments.engine.test_worker_crashes import Quick, _list_operations, _list_story_lines, killed_at

__all__ = ["drive", "killed_at"]

pytestmark = pytest.mark.django_db(transaction=True)

STRATEGY = """        type: Deployment
        failureStrategies:
          - onFailure:
              errors: [AllErrors]
              action: {type: Retry, spec: {retryCount: 1, retryIntervals: [3s]}}
"""
CRASH_INTERVAL = 12
KilledAt = Callable[[int, str], tuple[Quick, Execution, str]]


@pytest.fixture(autouse=True)
def _retry_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is of the demo with a strategy that tries its step once more."""

    def run_with_retry(*, pipeline: Pipeline, **choices: Any) -> Execution:
        changed_pipeline = Pipeline.objects.get(pk=pipeline.pk)
        changed_pipeline.yaml = changed_pipeline.yaml.replace("        type: Deployment\n", STRATEGY, 1)
        return run_pipeline(pipeline=changed_pipeline, **choices)

    monkeypatch.setattr("tests.deployments.engine.test_worker_crashes.run_pipeline", run_with_retry)


def test_a_failure_that_was_seen_and_not_written_is_seen_again(killed_at: KilledAt) -> None:
    baseline, _, _ = killed_at(0, "crash")
    passed_names = baseline.countdown.passed
    claim_indexes = [number for number, name in enumerate(passed_names) if name == "lease.claimed"]
    # Looks that commit more than once decide something, the last of them about the second attempt.
    write_indexes = [
        number for number in claim_indexes if passed_names[number + 3 : number + 4] == ["commit.before"]
    ]
    for write_index in (
        step_index for number in write_indexes[-3:] for step_index in (number + 1, number + 3)
    ):
        _, execution, _ = killed_at(write_index + 1, "crash")
        assert (execution.failure or {}).get("code") == "CONTAINER_EXITED", (
            f"killed at the {write_index + 1}th"
        )


@pytest.mark.parametrize("part", [0, 5])
def test_a_death_around_a_retry_changes_neither_its_count_nor_the_end(killed_at: KilledAt, part: int) -> None:
    baseline, baseline_execution, _ = killed_at(0, "crash")
    expected_story, expected_work = _list_story_lines(baseline_execution), _list_operations(baseline)
    assert "Trying step ECS rolling deploy again: attempt 2" in expected_story
    for stop_index in range(part + 1, len(baseline.countdown.passed) + 1, CRASH_INTERVAL):
        context = f"killed at {baseline.countdown.passed[stop_index - 1]}, the {stop_index}th"
        schedule, execution, _ = killed_at(stop_index, "crash")
        assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), context
        step = StepExecution.objects.get(stage__execution=execution, section="EXECUTION")
        assert (step.attempt, step.retries) == (2, 1), context
        assert _list_operations(schedule) == expected_work, context
        assert Counter(_list_story_lines(execution)) == Counter(expected_story), context
