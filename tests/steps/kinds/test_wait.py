"""The step that waits: as long as it says, and no longer."""

from typing import Any

import pytest

from deployments.execution.documents import build_execution_document
from deployments.execution.operations import abort_execution, decide_step
from deployments.models import Execution
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def read_actions(execution: Execution, principal: User) -> list[dict[str, Any]]:
    """Return the actions of the step as the page and the API show them."""
    (stage,) = build_execution_document(execution, principal)["stages"]
    return [action for unit in stage["steps"][0]["units"] for action in unit["actions"]]


def _wait(duration: str) -> str:
    return pipeline_text(
        stage_text(f"- step: {{identifier: pause, type: Wait, spec: {{duration: {duration}}}}}")
    )


def test_a_wait_lasts_as_long_as_it_says(write: Write, drive: Drive) -> None:
    execution = write(_wait("1h 30m")).start()
    began = drive.clock.now()
    drive.until_over(execution, most_seconds=6000)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    assert 5400 <= (drive.clock.now() - began).total_seconds() < 5410
    log = drive.log(execution)
    assert any(line.startswith("Waiting for 1 hour 30 minutes, until ") for line in log)
    assert "Wait finished" in log


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("soon", "duration is a time such as 90s, 10m or 1h 30m"),
        ("0s", "duration is from 1s to"),
        ("8d", "duration is from 1s to"),
    ],
)
def test_a_time_that_is_none_is_refused_when_saved(write: Write, duration: str, message: str) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        write(_wait(duration))
    assert message in str(refused.value.errors)


def test_a_person_may_go_on_sooner_and_nothing_stays_unknown(write: Write, drive: Drive) -> None:
    execution = write(_wait("2d")).start()
    drive.pass_time(30)
    decide_step(actor=drive.deployer, execution=execution, step="pause", decision="SKIP")
    drive.until_over(execution, most_seconds=120)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert "deployer decided about step Wait: skip" in drive.log(execution)
    (action,) = read_actions(execution, drive.deployer)
    assert (action["state"], action["ended_at"] is not None) == ("SKIPPED", True), "no clock goes on"


def test_an_action_that_an_abort_interrupts_ends_with_it(write: Write, drive: Drive) -> None:
    execution = write(_wait("2d")).start()
    drive.pass_time(30)
    (action,) = read_actions(execution, drive.deployer)
    assert (action["state"], action["ended_at"]) == ("STARTED", None)
    abort_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution, most_seconds=120)
    (action,) = read_actions(execution, drive.deployer)
    assert (action["state"], action["ended_at"] is not None) == ("ABORTED", True)
