"""A worker that dies between a failure and what is done about it: the decision was taken once, or not yet."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deployments.execution.operations import run_pipeline
from deployments.models import Execution, StepExecution
from pipelines.models import Pipeline
from tests.deployments.conftest import drive
from tests.deployments.engine.test_worker_crashes import Quick, _story, _work, killed_at

__all__ = ["drive", "killed_at"]

pytestmark = pytest.mark.django_db(transaction=True)

STRATEGY = """        type: Deployment
        failureStrategies:
          - onFailure:
              errors: [AllErrors]
              action: {type: Retry, spec: {retryCount: 1, retryIntervals: [3s]}}
"""
EVERY = 12
KilledAt = Callable[[int, str], tuple[Quick, Execution, str]]


@pytest.fixture(autouse=True)
def _retry_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is of the demo with a strategy that tries its step once more."""

    def run(*, pipeline: Pipeline, **choices: Any) -> Execution:
        fresh = Pipeline.objects.get(pk=pipeline.pk)
        fresh.yaml = fresh.yaml.replace("        type: Deployment\n", STRATEGY, 1)
        return run_pipeline(pipeline=fresh, **choices)

    monkeypatch.setattr("tests.deployments.engine.test_worker_crashes.run_pipeline", run)


def test_a_failure_that_was_seen_and_not_written_is_seen_again(killed_at: KilledAt) -> None:
    calm, _, _ = killed_at(0, "crash")
    passed = calm.countdown.passed
    looks = [number for number, name in enumerate(passed) if name == "lease.claimed"]
    # Looks that commit more than once decide something, the last of them about the second attempt.
    busy = [number for number in looks if passed[number + 3 : number + 4] == ["commit.before"]]
    for place in (place for number in busy[-3:] for place in (number + 1, number + 3)):
        _, execution, _ = killed_at(place + 1, "crash")
        assert (execution.failure or {}).get("code") == "CONTAINER_EXITED", f"killed at the {place + 1}th"


@pytest.mark.parametrize("part", [0, 5])
def test_a_death_around_a_retry_changes_neither_its_count_nor_the_end(killed_at: KilledAt, part: int) -> None:
    calm, undisturbed, _ = killed_at(0, "crash")
    story, work = _story(undisturbed), _work(calm)
    assert "Trying step ECS rolling deploy again: attempt 2" in story
    for at in range(part + 1, len(calm.countdown.passed) + 1, EVERY):
        where = f"killed at {calm.countdown.passed[at - 1]}, the {at}th"
        schedule, execution, _ = killed_at(at, "crash")
        assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), where
        step = StepExecution.objects.get(stage__execution=execution, section="EXECUTION")
        assert (step.attempt, step.retries) == (2, 1), where
        assert _work(schedule) == work, where
        assert Counter(_story(execution)) == Counter(story), where
