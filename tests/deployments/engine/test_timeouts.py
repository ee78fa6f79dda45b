"""Timeouts of steps: what had ended by then counts, whoever reads it and however late."""

from collections.abc import Callable

import pytest

from deployments.models import ActionRun, Execution, StepExecution
from tests.deployments.engine.conftest import Write, job, pipeline_text, stage_text
from tests.deployments.journal.test_delegate_calls import _run_to_end, remote
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand

pytestmark = pytest.mark.django_db(transaction=True)

TAGS = ("prod", "eu")
__all__ = ["remote"]


def _reach_timeout(drive: Drive, execution: Execution) -> None:
    """Let the timeout of the running step pass while no worker reconciles."""
    steps = StepExecution.objects.filter(stage__execution=execution, section="EXECUTION")
    drive.clock.move(600)
    drive.sandbox.advance(600)
    assert steps.update(timeout_at=drive.clock.now()) == 1


def _await_check(drive: Drive, execution: Execution, name: str, serve: Callable[[], object]) -> None:
    rows = ActionRun.objects.filter(step__stage__execution=execution, name=name, state="STARTED")
    for _ in range(120):
        drive.reconcile()
        serve()
        if rows.exclude(start_done_at=None).exists():
            return
        drive.clock.move(1)
        drive.sandbox.advance(1)
    raise AssertionError(drive.log(execution)[-5:])


def test_a_step_whose_actions_are_all_done_does_not_time_out(drive: Drive) -> None:
    execution = drive.start("1.27")
    drive.pass_time(5)
    # As after a worker that was killed before it could end the step.
    ActionRun.objects.filter(step__stage__execution=execution).update(state="DONE")
    _reach_timeout(drive, execution)
    assert drive.until_over(execution).status == "SUCCESS", execution.failure


def test_a_deployment_that_recovered_before_the_timeout_counts_although_no_check_saw_it(
    drive: Drive,
) -> None:
    drive.run("1.27")
    fail_fast = "{failedTasks: 0, onFatalReason: false, stableSeconds: 0}"
    drive.pipeline.yaml = drive.pipeline.yaml.replace("spec: {}", f"spec: {{failFast: {fail_fast}}}", 1)
    drive.pipeline.save(update_fields=["yaml"])
    drive.call("logs", "DeleteLogGroup", {"logGroupName": "/ecs/myapp"})
    execution = drive.start("1.28")
    while "Cause: The log group of the task cannot be used." not in drive.log(execution):
        drive.pass_time(5)
    drive.call("logs", "CreateLogGroup", {"logGroupName": "/ecs/myapp"})
    mark = drive.mark()
    _reach_timeout(drive, execution)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    assert "UpdateService" not in drive.effects(after=mark), "nothing is rolled back"


def test_a_task_that_ended_before_the_timeout_counts_although_no_check_saw_it(
    write: Write, drive: Drive
) -> None:
    execution = write(pipeline_text(stage_text(job(drive, "first")))).start("1.27")
    _await_check(drive, execution, "WaitForTasks", lambda: None)
    _reach_timeout(drive, execution)
    assert drive.until_over(execution).status == "SUCCESS", execution.failure


def test_a_task_that_failed_before_the_timeout_is_reported_with_its_cause(write: Write, drive: Drive) -> None:
    execution = write(pipeline_text(stage_text(job(drive, "first"))).replace(":done", ":crash")).start("1.27")
    _await_check(drive, execution, "WaitForTasks", lambda: None)
    _reach_timeout(drive, execution)
    failure = drive.until_over(execution).failure
    assert failure is not None
    assert failure["exit_code"] == 1


def test_the_last_check_before_a_timeout_waits_for_the_answer_of_a_delegate(remote: Drive) -> None:
    prod = hand("prod-eu", tags=TAGS)
    execution = remote.start("1.27")
    _await_check(remote, execution, "WaitForSteadyState", prod.serve)
    _reach_timeout(remote, execution)
    assert _run_to_end(remote, execution, prod).outcome == "COMPLETED", execution.failure


def test_a_last_check_that_no_delegate_answers_ends_soon(remote: Drive) -> None:
    prod = hand("prod-eu", tags=TAGS)
    execution = remote.start("1.27")
    _await_check(remote, execution, "WaitForSteadyState", prod.serve)
    _reach_timeout(remote, execution)
    remote.pass_time(90)
    step = StepExecution.objects.get(stage__execution=execution, section="EXECUTION")
    assert (step.failure or {}).get("code") == "TIMED_OUT"
