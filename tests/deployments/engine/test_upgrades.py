"""What an upgrade in the middle of an execution must not break."""

from datetime import timedelta

import pytest
import yaml

from deployments.execution.operations import abort_execution, decide_step, roll_back_execution
from deployments.models import ActionRun, Execution, Interrupt, StepExecution
from steps.actions.base import get_actions
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import PLACE

pytestmark = pytest.mark.django_db(transaction=True)


def _rename_action(execution: Execution, old: str, new: str) -> None:
    updated_rows = ActionRun.objects.filter(step__stage__execution=execution, name=old).update(name=new)
    assert updated_rows == 1


def test_an_action_that_this_version_does_not_know_waits_for_a_person_and_goes_on(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_action(execution, "SuspendAutoScaling", "PauseAutoScaling")
    drive.pass_time(5)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING"
    row = ActionRun.objects.get(step__stage__execution=execution, name="PauseAutoScaling")
    assert "Unknown action in this version of Slipway: PauseAutoScaling" in row.detail
    _rename_action(execution, "PauseAutoScaling", "SuspendAutoScaling")
    drive.pass_time(62)
    execution.refresh_from_db()
    assert execution.status == "RUNNING"
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_an_execution_that_waits_for_a_person_can_be_aborted(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_action(execution, "RegisterTaskDefinition", "Nonsense")
    drive.pass_time(3)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert execution.status == "ABORTED"
    assert drive.effects() == []


def _start_rollback(drive: Drive, execution: Execution) -> StepExecution:
    """Roll an execution back, until its rollback step waits for a person."""
    roll_back_execution(actor=drive.deployer, execution=execution)
    return _wait_for_intervention(drive, execution)


def _wait_for_intervention(drive: Drive, execution: Execution) -> StepExecution:
    """Let time pass until the rollback step of an execution waits for a person."""
    step = StepExecution.objects.get(stage__execution=execution, section="ROLLBACK")
    for _ in range(60):
        drive.pass_time(1)
        step.refresh_from_db()
        if step.intervention is not None:
            return step
    raise AssertionError(f"nobody is asked: {drive.log(execution)[-5:]}")


@pytest.mark.parametrize("change", [{"name": "ReleaseService"}, {"version": 99}], ids=["name", "version"])
def test_an_undo_of_an_unknown_action_waits_for_a_person_who_may_leave_it_out(
    drive: Drive, change: dict[str, object]
) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="CreateOrUpdateService")
    assert rows.update(**change) == 1
    step = _start_rollback(drive, execution)
    assert step.intervention is not None
    assert step.intervention["kind"] == "STUCK_BACKWARD"
    execution.refresh_from_db()
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="IGNORE")
    drive.until_over(execution)
    assert not Interrupt.objects.filter(kind="FAIL").exists()
    assert execution.status == "FAILED"
    step.refresh_from_db()
    row = ActionRun.objects.get(step__stage__execution=execution, state="NOT_RESTORED")
    unknown = step.rollback_checks.get(actual="not known")
    assert (unknown.subject, unknown.passed) == (row.title, False)


def test_an_undo_of_an_unknown_action_that_times_out_is_decided_like_one_that_moves_traffic(
    drive: Drive,
) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    _rename_action(execution, "CreateOrUpdateService", "ReleaseService")
    step = _start_rollback(drive, execution)
    assert step.timeout_at is not None
    drive.clock.moment = max(drive.clock.moment, step.timeout_at)
    drive.pass_time(62, step=31)
    step.refresh_from_db()
    assert step.intervention is not None
    assert step.intervention["kind"] == "NOT_RESTORED"


def test_what_runs_at_the_end_and_is_of_another_version_fails_without_holding_up_the_end(
    drive: Drive,
) -> None:
    execution = drive.start("1.27")
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="ResumeAutoScaling")
    assert rows.update(version=99) == 1
    drive.pass_time(5)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution, most_seconds=300)
    assert execution.status == "ABORTED"
    assert rows.get().state == "FAILED"
    assert any("Do it by hand." in line for line in drive.log(execution))


def test_what_runs_at_the_end_waits_for_a_worker_of_its_version(drive: Drive) -> None:
    execution = drive.start("1.27")
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="ResumeAutoScaling")
    version = rows.get().version
    rows.update(version=99)
    drive.pass_time(5)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.pass_time(70, step=10)
    execution.refresh_from_db()
    assert not execution.is_over
    waits = f"{rows.get().title} waits. Only another version of Slipway can run this action."
    assert drive.log(execution).count(waits) == 1
    rows.update(version=version)
    drive.until_over(execution, most_seconds=120)
    assert execution.status == "ABORTED"
    assert (rows.get().state, rows.get().detail) == ("DONE", "")


def test_what_runs_at_the_end_waits_from_the_first_worker_that_cannot_run_it(drive: Drive) -> None:
    execution = drive.start("1.27")
    drive.pass_time(5)
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="ResumeAutoScaling")
    version, started_at = rows.get().version, drive.clock.now() - timedelta(minutes=6)
    rows.update(version=99, state="STARTED", started_at=started_at)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.pass_time(200, step=10)
    assert rows.get().state == "STARTED"
    waits = f"{rows.get().title} waits. Only another version of Slipway can run this action."
    assert drive.log(execution).count(waits) == 1
    rows.update(version=version)
    drive.until_over(execution, most_seconds=20)
    assert (rows.get().state, rows.get().detail) == ("DONE", "")


def test_a_worker_that_can_run_what_runs_at_the_end_starts_the_wait_for_it_anew(drive: Drive) -> None:
    drive.run("1.27")
    bounds = {"MinCapacity": 1, "MaxCapacity": 6}
    drive.call("application-autoscaling", "RegisterScalableTarget", {**PLACE, **bounds})
    execution = drive.start("1.28")
    while "UpdateService" not in {call.operation for call in drive.calls(execution)}:
        drive.pass_time(1)
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="ResumeAutoScaling")
    version = rows.get().version
    rows.update(version=99)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.pass_time(200, step=10)
    drive.sandbox.fault("throttle", service="application-autoscaling")
    rows.update(version=version)
    drive.pass_time(70, step=10)
    assert rows.get().consecutive_errors > 0
    rows.update(version=99)
    drive.pass_time(200, step=10)
    assert rows.get().state == "STARTED"
    drive.sandbox.clear_faults()
    rows.update(version=version)
    drive.until_over(execution, most_seconds=60)
    assert rows.get().state == "DONE"


def _undo_update_of_other_version(drive: Drive) -> Execution:
    """Return an execution whose update is undone, and then belongs to another version, before the rest."""
    drive.run("1.27")
    execution = drive.run("1.28")
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="CreateOrUpdateService")
    drive.sandbox.fault("throttle", operation="DeregisterTaskDefinition")
    roll_back_execution(actor=drive.deployer, execution=execution)
    for _ in range(120):
        drive.pass_time(1)
        if rows.get().state == "UNDONE":
            break
    assert rows.filter(state="UNDONE").update(version=99) == 1
    drive.sandbox.clear_faults()
    return execution


def test_the_checklist_waits_for_a_worker_that_can_verify_what_another_one_has_undone(drive: Drive) -> None:
    execution = _undo_update_of_other_version(drive)
    rows = ActionRun.objects.filter(step__stage__execution=execution, version=99)
    drive.pass_time(120, step=10)
    execution.refresh_from_db()
    assert not execution.is_over
    assert any("waits. Only another version" in line for line in drive.log(execution))
    assert rows.update(version=get_actions()["CreateOrUpdateService"].version) == 1
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK")
    assert not any("NOT RESTORED" in line for line in drive.log(execution))


def test_the_checklist_waits_no_longer_than_its_step_for_another_version(drive: Drive) -> None:
    execution = _undo_update_of_other_version(drive)
    drive.until_over(execution, most_seconds=4000)
    step = StepExecution.objects.get(stage__execution=execution, section="ROLLBACK")
    assert execution.status == "FAILED"
    unknown = step.rollback_checks.get(actual="not known")
    assert unknown.note == "Only another version of Slipway can run this action."


def test_a_skipped_action_that_this_version_does_not_know_has_no_known_result(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_action(execution, "RegisterTaskDefinition", "Nonsense")
    drive.pass_time(5)
    step = StepExecution.objects.get(stage__execution=execution, section="EXECUTION")
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="SKIP")
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "")


def _rename_step(execution: Execution, old: str, new: str) -> None:
    assert StepExecution.objects.filter(stage__execution=execution, type=old).update(type=new) == 1


DEPLOY = ("EcsRollingDeploy", "EcsGradualDeploy")
ROLLBACK = ("EcsRollingRollback", "EcsGradualRollback")


def test_a_step_of_an_unknown_kind_waits_for_a_person_before_its_undo_and_goes_on(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, *DEPLOY)
    step = _wait_for_intervention(drive, execution)
    assert step.intervention is not None
    assert step.intervention["kind"] == "STUCK_BACKWARD"
    assert any("Unknown kind of step in this version" in line for line in drive.log(execution))
    _rename_step(execution, *DEPLOY[::-1])
    drive.until_over(execution)
    assert not Interrupt.objects.filter(kind="FAIL").exists()
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK")


def _choose_steps(drive: Drive, steps: dict[str, dict[str, object]], rollback_types: list[str]) -> None:
    """Give the stage these steps, by type with their specs, and these rollback steps."""
    document = yaml.safe_load(drive.pipeline.yaml)
    stage_spec = document["pipeline"]["stages"][0]["stage"]["spec"]
    stage_spec.pop("strategy", None)
    sections = {"steps": steps, "rollbackSteps": dict.fromkeys(rollback_types, {})}
    stage_spec["execution"] = {
        section: [
            {"step": {"type": type_, "identifier": type_.lower(), "spec": {**spec}}}
            for type_, spec in specs.items()
        ]
        for section, specs in sections.items()
    }
    drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    drive.pipeline.save(update_fields=["yaml"])


def test_a_question_about_a_step_that_a_rollback_step_does_not_undo_ends_with_that_step(drive: Drive) -> None:
    _choose_steps(drive, {"EcsRollingDeploy": {}}, ["EcsScaleRollback", "EcsRollingRollback"])
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, *DEPLOY)
    steps = StepExecution.objects.filter(stage__execution=execution)
    while steps.get(type="EcsScaleRollback").intervention is None:
        drive.pass_time(1)
    _rename_step(execution, *DEPLOY[::-1])
    while steps.get(type="EcsRollingRollback").started_at is None:
        drive.pass_time(1)
    step = steps.get(type="EcsScaleRollback")
    execution.refresh_from_db()
    assert (step.status, step.intervention) == ("SUCCESS", None)
    assert execution.status == "ROLLING_BACK"
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK")


def test_a_decision_about_a_step_that_a_rollback_step_does_not_undo_leaves_its_own_undos(
    drive: Drive,
) -> None:
    steps: dict[str, dict[str, object]] = {
        "EcsRollingDeploy": {},
        "EcsScale": {"service": "myapp", "instances": 2},
    }
    _choose_steps(drive, steps, ["EcsRollingRollback", "EcsScaleRollback"])
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, "EcsScale", "EcsGradualScale")
    rollback = StepExecution.objects.filter(stage__execution=execution, type="EcsRollingRollback")
    while rollback.get().intervention is None:
        drive.pass_time(1)
    execution.refresh_from_db()
    decide_step(actor=drive.deployer, execution=execution, step=rollback.get().identifier, decision="IGNORE")
    _rename_step(execution, "EcsGradualScale", "EcsScale")
    drive.until_over(execution)
    assert rollback.get().status == "SUCCESS", drive.log(execution)
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="CreateOrUpdateService")
    assert rows.get().state == "UNDONE"
    assert Interrupt.objects.get(kind="IGNORE").result == "This decision is no longer required."


def test_an_undo_in_a_step_of_an_unknown_kind_can_be_left_out(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, *DEPLOY)
    step = _wait_for_intervention(drive, execution)
    execution.refresh_from_db()
    while step.intervention is not None:
        decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="IGNORE")
        drive.pass_time(2)
        step.refresh_from_db()
    drive.until_over(execution)
    assert not Interrupt.objects.filter(kind="FAIL").exists()
    assert execution.status == "FAILED"
    step.refresh_from_db()
    assert set(step.rollback_checks.values_list("actual", "passed")) == {("not known", False)}


def test_a_rollback_step_of_an_unknown_kind_waits_for_a_worker_that_knows_it(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, *ROLLBACK)
    drive.pass_time(120, step=10)
    execution.refresh_from_db()
    assert execution.status == "ROLLING_BACK"
    _rename_step(execution, *ROLLBACK[::-1])
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK")


def test_a_rollback_step_of_an_unknown_kind_ends_as_not_restored_after_its_time(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=execution)
    _rename_step(execution, *ROLLBACK)
    drive.until_over(execution, most_seconds=4000)
    assert execution.status == "FAILED"
    assert any(line.startswith("NOT RESTORED") for line in drive.log(execution))


def test_an_ignored_step_of_an_unknown_kind_does_not_count_as_deployed(drive: Drive) -> None:
    execution = drive.start("1.27")
    _rename_step(execution, *DEPLOY)
    drive.pass_time(5)
    step = StepExecution.objects.get(stage__execution=execution, section="EXECUTION")
    assert step.status == "INTERVENTION_WAITING"
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="IGNORE")
    drive.until_over(execution)
    assert not Interrupt.objects.filter(kind="FAIL").exists()
    assert (execution.status, execution.outcome) == ("IGNORE_FAILED", "FAILED")


def test_an_execution_with_a_step_of_an_unknown_kind_can_be_rolled_back(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    while "UpdateService" not in {call.operation for call in drive.calls(execution)}:
        drive.pass_time(1)
    _rename_step(execution, *DEPLOY)
    execution.refresh_from_db()
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    step = _wait_for_intervention(drive, execution)
    execution.refresh_from_db()
    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="RETRY")
    _rename_step(execution, *DEPLOY[::-1])
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("ABORTED", "ROLLED_BACK")


def test_a_step_whose_spec_only_another_version_can_resolve_waits_for_its_start(drive: Drive) -> None:
    execution = drive.start("1.27")
    steps = StepExecution.objects.filter(stage__execution=execution, section="EXECUTION")
    assert steps.update(unresolved_spec={}) == 1
    _rename_step(execution, *DEPLOY)
    drive.pass_time(130, step=10)
    assert steps.get().status == "QUEUED"
    waits = "can start a step of type EcsGradualDeploy."
    assert sum(line.endswith(waits) for line in drive.log(execution)) == 1
    _rename_step(execution, *DEPLOY[::-1])
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
