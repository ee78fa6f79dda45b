"""Rollback steps side by side, in groups and under conditions."""

import pytest

from deployments.execution.documents import build_execution_document
from deployments.execution.operations import roll_back_execution
from deployments.execution.undo_plan import build_undo_plan
from deployments.models import ActionRun, Execution, StepExecution
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.deployments.engine.test_service_locks import _build_parallel, _build_scale_step, worker
from tests.fixtures.engine_driver import Drive

__all__ = ["worker"]
pytestmark = pytest.mark.django_db(transaction=True)

UNDO = "- step: {{identifier: {name}, type: {type}{more}}}\n"


def _build_undo_step(name: str, step_type: str, condition: str = "") -> str:
    condition_field = f', when: {{condition: "{condition}"}}' if condition else ""
    return UNDO.format(name=name, type=step_type, more=condition_field)


def _build_pipeline(steps: str, rollback_steps: str, variables: str = "{}") -> str:
    stage = stage_text(steps)
    index = stage.index("          - step: {identifier: back_app")
    lines = "".join(f"          {line}" for line in rollback_steps.splitlines(keepends=True))
    return pipeline_text(stage[:index] + lines, variables=variables)


def _get_rollback_steps(execution: Execution) -> dict[str, StepExecution]:
    rows = StepExecution.objects.filter(stage__execution=execution, section="ROLLBACK")
    return {step.identifier: step for step in rows}


def test_rollbacks_of_different_services_run_side_by_side(write: Write, drive: Drive, worker: str) -> None:
    before = drive.service()["taskDefinition"]
    rollback_group = _build_parallel(
        _build_undo_step("back", "EcsRollingRollback"), _build_undo_step("unscale", "EcsScaleRollback")
    )
    pipeline_drive = write(
        _build_pipeline(_build_parallel(DEPLOY, _build_scale_step("more", worker, 3)), rollback_group)
    )
    execution = pipeline_drive.run("1.28")
    assert execution.outcome == "COMPLETED", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    assert (drive.service()["taskDefinition"], drive.service("worker")["desiredCount"]) == (before, 1)
    steps = _get_rollback_steps(execution)
    assert steps["back"].started_at < steps["unscale"].ended_at
    assert steps["unscale"].started_at < steps["back"].ended_at
    step_rows = build_execution_document(execution, pipeline_drive.deployer)["stages"][0]["steps"]
    assert [step["depth"] for step in step_rows] == [1, 1, 1, 1]


def test_rollbacks_of_one_service_take_turns_although_they_stand_side_by_side(
    write: Write, drive: Drive, worker: str
) -> None:
    rollback_group = _build_parallel(
        _build_undo_step("unscale", "EcsScaleRollback"), _build_undo_step("back", "EcsRollingRollback")
    )
    execution = write(_build_pipeline(DEPLOY + _build_scale_step("more", "myapp", 3), rollback_group)).run(
        "1.28"
    )
    assert execution.outcome == "COMPLETED", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)[-5:]
    steps = _get_rollback_steps(execution)
    assert steps["back"].started_at >= steps["unscale"].ended_at


def test_what_a_skipped_rollback_would_have_undone_stays_and_is_said_to(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    undo_step = _build_undo_step("back", "EcsRollingRollback", "<+pipeline.variables.keep> != 'yes'")
    group = "- stepGroup:\n    identifier: g\n    steps:\n" + f"      {undo_step}"
    pipeline_drive = write(_build_pipeline(DEPLOY, group, variables="{keep: 'yes'}"))
    rolled_back_execution = pipeline_drive.run("crash", inputs={"keep": "no"})
    assert (rolled_back_execution.status, rolled_back_execution.outcome) == ("FAILED", "ROLLED_BACK")
    execution = pipeline_drive.run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "FAILED")
    step = _get_rollback_steps(execution)["back"]
    assert step.status == "SKIPPED"
    assert step.skip_reason == "because this is false: <+pipeline.variables.keep> != 'yes'"
    unrestored_actions = ActionRun.objects.filter(step__stage__execution=execution, state="NOT_RESTORED")
    assert unrestored_actions.filter(step__identifier="deploy", detail__contains="was skipped").exists()
    descriptions = [change["words"] for change in build_undo_plan(execution)["changes"]]
    assert descriptions
    assert all(description.endswith("if <+pipeline.variables.keep> != 'yes'") for description in descriptions)


def test_a_rollback_whose_condition_has_no_answer_runs(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    undo_step = _build_undo_step("back", "EcsRollingRollback", "<+pipeline.variables.keep>")
    execution = write(_build_pipeline(DEPLOY, undo_step, variables="{keep: maybe}")).run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert any("has no answer, so the rollback runs" in line for line in drive.log(execution))


def test_a_service_that_was_scaled_and_then_deployed_is_restored(write: Write, drive: Drive) -> None:
    drive.run("1.27")
    before = drive.service()
    steps = _build_scale_step("more", "myapp", 3) + DEPLOY
    undos = _build_undo_step("back", "EcsRollingRollback") + _build_undo_step("unscale", "EcsScaleRollback")
    execution = write(_build_pipeline(steps, undos)).run("crash")
    after = drive.service()
    assert (after["desiredCount"], after["taskDefinition"]) == (
        before["desiredCount"],
        before["taskDefinition"],
    )
    assert execution.outcome == "ROLLED_BACK"
    assert not any("Somebody else deployed" in line for line in drive.log(execution))


def test_a_service_that_was_deployed_twice_is_restored_to_the_version_before_both(
    write: Write, drive: Drive
) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    again = DEPLOY.replace("deploy", "again", 1).replace(
        "type: EcsRollingDeploy", "type: EcsRollingDeploy, spec: {forceNewDeployment: true}"
    )
    execution = write(_build_pipeline(DEPLOY + again, _build_undo_step("back", "EcsRollingRollback"))).run(
        "1.28"
    )
    assert execution.status == "SUCCESS", execution.failure
    roll_back_execution(actor=drive.deployer, execution=execution)
    drive.reconcile()
    drive.until_over(execution)
    assert drive.service()["taskDefinition"] == before
    assert execution.outcome == "ROLLED_BACK"
    (step,) = _get_rollback_steps(execution).values()
    expected = [
        check.expected
        for check in step.rollback_checks.all()
        if check.subject.startswith("Task definition of")
    ]
    assert expected == [before], "once, by the state before the first deployment"
