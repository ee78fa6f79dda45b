"""Rollback steps side by side, in groups and under conditions."""

import pytest

from deployments.execution.documents import build_execution_document
from deployments.execution.operations import roll_back_execution
from deployments.execution.undo_plan import build_undo_plan
from deployments.models import ActionRun, Execution, StepExecution
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.deployments.engine.test_service_locks import _parallel, _scale, worker
from tests.fixtures.engine_driver import Drive

__all__ = ["worker"]
pytestmark = pytest.mark.django_db(transaction=True)

UNDO = "- step: {{identifier: {name}, type: {type}{more}}}\n"


def _undo(name: str, type_: str, condition: str = "") -> str:
    more = f', when: {{condition: "{condition}"}}' if condition else ""
    return UNDO.format(name=name, type=type_, more=more)


def _pipeline(steps: str, back: str, variables: str = "{}") -> str:
    stage = stage_text(steps)
    at = stage.index("          - step: {identifier: back_app")
    lines = "".join(f"          {line}" for line in back.splitlines(keepends=True))
    return pipeline_text(stage[:at] + lines, variables=variables)


def _back(execution: Execution) -> dict[str, StepExecution]:
    rows = StepExecution.objects.filter(stage__execution=execution, section="ROLLBACK")
    return {step.identifier: step for step in rows}


def test_rollbacks_of_different_services_run_side_by_side(write: Write, drive: Drive, worker: str) -> None:
    before = drive.service()["taskDefinition"]
    back = _parallel(_undo("back", "EcsRollingRollback"), _undo("unscale", "EcsScaleRollback"))
    ready = write(_pipeline(_parallel(DEPLOY, _scale("more", worker, 3)), back))
    execution = ready.run("1.28")
    assert execution.outcome == "COMPLETED", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert (drive.service()["taskDefinition"], drive.service("worker")["desiredCount"]) == (before, 1)
    found = _back(execution)
    assert found["back"].started_at < found["unscale"].ended_at
    assert found["unscale"].started_at < found["back"].ended_at
    shown = build_execution_document(execution, ready.deployer)["stages"][0]["steps"]
    assert [step["depth"] for step in shown] == [1, 1, 1, 1]


def test_rollbacks_of_one_service_take_turns_although_they_stand_side_by_side(
    write: Write, drive: Drive, worker: str
) -> None:
    back = _parallel(_undo("unscale", "EcsScaleRollback"), _undo("back", "EcsRollingRollback"))
    execution = write(_pipeline(DEPLOY + _scale("more", "myapp", 3), back)).run("1.28")
    assert execution.outcome == "COMPLETED", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    found = _back(execution)
    assert found["back"].started_at >= found["unscale"].ended_at


def test_what_a_skipped_rollback_would_have_undone_stays_and_is_said_to(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    undo = _undo("back", "EcsRollingRollback", "<+pipeline.variables.keep> != 'yes'")
    group = "- stepGroup:\n    identifier: g\n    steps:\n" + f"      {undo}"
    ready = write(_pipeline(DEPLOY, group, variables="{keep: 'yes'}"))
    put_back = ready.run("crash", inputs={"keep": "no"})
    assert (put_back.status, put_back.outcome) == ("FAILED", "ROLLED_BACK")
    execution = ready.run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "FAILED")
    step = _back(execution)["back"]
    assert step.status == "SKIPPED"
    assert step.skip_reason == "because this is false: <+pipeline.variables.keep> != 'yes'"
    left = ActionRun.objects.filter(step__stage__execution=execution, state="NOT_RESTORED")
    assert left.filter(step__identifier="deploy", detail__contains="was skipped").exists()
    words = [change["words"] for change in build_undo_plan(execution)["changes"]]
    assert words
    assert all(one.endswith("if <+pipeline.variables.keep> != 'yes'") for one in words)


def test_a_rollback_whose_condition_has_no_answer_runs(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    undo = _undo("back", "EcsRollingRollback", "<+pipeline.variables.keep>")
    execution = write(_pipeline(DEPLOY, undo, variables="{keep: maybe}")).run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert any("has no answer, so the rollback runs" in line for line in drive.log(execution))
