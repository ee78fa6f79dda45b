"""A worker that dies between a failure and what is done about it: the decision was taken once, or not yet."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from deployments.models import Execution, Pipeline, StepExecution
from deployments.operations import run_pipeline
from tests.deployments.test_deaths import Quick, _story, _work, killed_at
from tests.interventions.conftest import drive

__all__ = ["drive", "killed_at"]

pytestmark = pytest.mark.django_db(transaction=True)

STRATEGY = """        type: Deployment
        failureStrategies:
          - onFailure:
              errors: [AllErrors]
              action: {type: Retry, spec: {retryCount: 1, retryIntervals: [3s]}}
"""
EVERY = 12


@pytest.mark.parametrize("part", [0, 5])
def test_a_death_around_a_retry_changes_neither_its_count_nor_the_end(
    killed_at: Callable[[int, str], tuple[Quick, Execution, str]],
    monkeypatch: pytest.MonkeyPatch,
    part: int,
) -> None:
    def run(*, pipeline: Pipeline, **choices: Any) -> Execution:
        fresh = Pipeline.objects.get(pk=pipeline.pk)
        fresh.yaml = fresh.yaml.replace("        type: Deployment\n", STRATEGY, 1)
        return run_pipeline(pipeline=fresh, **choices)

    monkeypatch.setattr("tests.deployments.test_deaths.run_pipeline", run)
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
