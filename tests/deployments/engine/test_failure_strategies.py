"""What a pipeline says is to be done about a failure is done, and can be read in the log."""

import pytest

from deployments.engine.always_actions import LONGEST_START_DELAY
from deployments.execution.operations import abort_execution
from deployments.execution.undo_plan import build_undo_plan
from deployments.models import ActionRun, Execution, Interrupt, ServiceLock, StepExecution
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.deployments.execution.conftest import Strategies
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

DENIED = "RegisterTaskDefinition"


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _get_step(execution: Execution) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, section="EXECUTION")


def _build_strategy(errors: str, action: str) -> str:
    return f"- onFailure: {{errors: [{errors}], action: {action}}}"


def test_a_failure_that_is_ignored_is_not_said_to_have_ended_well(
    drive: Drive, strategies: Strategies
) -> None:
    strategies(_build_strategy("AllErrors", "{type: Ignore}"))
    execution = drive.run("crash")
    assert _get_result(execution) == ("IGNORE_FAILED", "FAILED")
    assert _get_step(execution).status == "IGNORE_FAILED"
    assert "Step ECS rolling deploy: its failure is ignored" in drive.log(execution)
    assert not ServiceLock.objects.exists()


def test_a_step_is_tried_again_after_each_interval_and_then_rolled_back(
    drive: Drive, strategies: Strategies
) -> None:
    drive.run("1.27")
    strategies(
        _build_strategy("AllErrors", "{type: Retry, spec: {retryCount: 2, retryIntervals: [10s, 1m]}}")
    )
    drive.sandbox.fault("denied", service="ecs", operation=DENIED)
    execution = drive.run("1.28")
    assert execution.status == "FAILED"
    log = drive.log(execution)
    assert "Step ECS rolling deploy is tried again in 10 seconds: retry 1 of 2" in log
    assert "Step ECS rolling deploy is tried again in 60 seconds: retry 2 of 2" in log
    assert "Trying step ECS rolling deploy again: attempt 3" in log
    assert "Step ECS rolling deploy failed after 2 retries" in log
    assert _get_step(execution).attempt == 3
    assert execution.failure["code"] == "ACCESS_DENIED"


def test_a_retry_goes_on_where_the_step_failed_and_repeats_no_write(
    drive: Drive, strategies: Strategies
) -> None:
    drive.run("1.27")
    strategies(
        _build_strategy("Authorization", "{type: Retry, spec: {retryCount: 1, retryIntervals: [30s]}}")
    )
    mark = drive.mark()
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService")
    execution = drive.start("1.28")
    for _ in range(60):
        drive.pass_time(1)
        if _get_step(execution).retry_at is not None:
            break
    drive.sandbox.clear_faults()
    drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert execution.failure is None
    assert drive.effects(after=mark).count("RegisterTaskDefinition") == 1
    assert drive.effects(after=mark).count("UpdateService") == 1


def test_what_was_done_in_an_earlier_attempt_is_undone_as_well(drive: Drive, strategies: Strategies) -> None:
    drive.run("1.27")
    before = drive.service()["taskDefinition"]
    strategies(_build_strategy("AllErrors", "{type: Retry, spec: {retryCount: 1, retryIntervals: [5s]}}"))
    mark = drive.mark()
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == before
    # Each attempt deploys once more: looking again at what has failed would end in the same way.
    assert drive.effects(after=mark).count("UpdateService") == 3
    assert drive.effects(after=mark).count("RegisterTaskDefinition") == 1


def test_a_service_that_an_earlier_attempt_created_is_deployed_once_more_and_deleted_in_the_end(
    drive: Drive, strategies: Strategies
) -> None:
    strategies(_build_strategy("AllErrors", "{type: Retry, spec: {retryCount: 1, retryIntervals: [5s]}}"))
    mark = drive.mark()
    execution = drive.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    operations = drive.effects(after=mark)
    assert [
        operations.count(operation) for operation in ("CreateService", "UpdateService", "DeleteService")
    ] == [1, 1, 1]


@pytest.mark.parametrize(
    ("action", "status"),
    [("MarkAsSuccess", "SUCCESS"), ("MarkAsFailure", "FAILED"), ("Abort", "ABORTED")],
)
def test_an_end_that_a_pipeline_names_undoes_nothing(
    drive: Drive, strategies: Strategies, action: str, status: str
) -> None:
    drive.run("1.27")
    strategies(_build_strategy("AllErrors", f"{{type: {action}}}"))
    mark = drive.mark()
    execution = drive.run("crash")
    assert _get_result(execution) == (status, "FAILED")
    assert drive.effects(after=mark) == ["RegisterTaskDefinition", "UpdateService"]


def test_a_rollback_while_a_retry_waits_undoes_what_the_first_attempt_changed(
    drive: Drive, strategies: Strategies
) -> None:
    drive.run("1.27")
    running_definition = drive.service()["taskDefinition"]
    strategies(_build_strategy("AllErrors", "{type: Retry, spec: {retryCount: 1, retryIntervals: [5m]}}"))
    execution = drive.start("crash")
    for _ in range(200):
        drive.pass_time(5, step=5)
        if _get_step(execution).retry_at is not None:
            break
    assert drive.service()["taskDefinition"] != running_definition
    # The retry gets no further than the action before the update.
    drive.sandbox.fault("throttle", operation="DescribeScalableTargets")
    drive.pass_time(305, step=5)
    execution.refresh_from_db()
    abort_execution(actor=drive.deployer, execution=execution, roll_back=True)
    drive.pass_time(3)
    drive.sandbox.clear_faults()
    assert any(
        "restore" in change["words"] or "back to" in change["words"]
        for change in build_undo_plan(execution)["changes"]
    )
    drive.until_over(execution)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK"), drive.log(execution)[-12:]
    assert drive.service()["taskDefinition"] == running_definition


def test_the_first_strategy_that_fits_counts_and_others_are_left_aside(
    drive: Drive, strategies: Strategies
) -> None:
    strategies(
        _build_strategy("Timeout", "{type: Ignore}")
        + "\n"
        + _build_strategy("Authorization", "{type: Abort}")
    )
    drive.sandbox.fault("denied", service="ecs", operation=DENIED)
    execution = drive.run("1.27")
    assert execution.status == "ABORTED"


def test_what_no_strategy_names_is_rolled_back(drive: Drive, strategies: Strategies) -> None:
    drive.run("1.27")
    strategies(_build_strategy("Timeout", "{type: Ignore}"))
    assert _get_result(drive.run("crash")) == ("FAILED", "ROLLED_BACK")


def _build_retry_after_failure() -> str:
    """Return two stages with one failing step each, of the same identifier; the second one is retried."""
    ignore = "onRetryFailure: {action: {type: Ignore}}"
    retry = f"{{type: Retry, spec: {{retryCount: 1, retryIntervals: [10s], {ignore}}}}}"
    check = "- step:\n    identifier: check\n    type: Verify\n    spec: {alarms: [nobody_made_it]}\n"
    retried = f"{check}    failureStrategies: [{_build_strategy('AllErrors', retry)[2:]}]\n"
    stages = stage_text(check, "one"), stage_text(retried, "two", "when: {pipelineStatus: All}")
    return pipeline_text(*stages)


def test_a_retry_in_a_later_stage_keeps_the_failure_of_an_earlier_one(write: Write, drive: Drive) -> None:
    execution = write(_build_retry_after_failure()).run("1.27")
    assert any("is tried again" in line for line in drive.log(execution))
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["stage"]) == ("ALARM_MISSING", "one")
    assert _get_result(execution) == ("FAILED", "FAILED")


DEPLOY = "- step:\n    identifier: deploy\n    type: EcsRollingDeploy\n"
PAUSE = "- step: {identifier: pause, type: Wait, spec: {duration: 1h}}\n"


def _build_deploy_with_ignored_failure(next_step: str) -> str:
    ignored = f"    failureStrategies: [{_build_strategy('AllErrors', '{type: Ignore}')[2:]}]\n"
    return pipeline_text(stage_text(DEPLOY + ignored + next_step))


def test_scaling_resumes_after_an_ignored_failure_while_the_stage_goes_on(write: Write, drive: Drive) -> None:
    execution = write(_build_deploy_with_ignored_failure(PAUSE)).start("crash")
    steps = StepExecution.objects.filter(stage__execution=execution)
    for _ in range(300):
        drive.pass_time(1)
        if steps.filter(identifier="pause", status__in=("RUNNING", "ASYNC_WAITING")).exists():
            break
    drive.pass_time(10)
    row = ActionRun.objects.get(step__stage__execution=execution, name="ResumeAutoScaling")
    assert row.state == "DONE"
    execution.refresh_from_db()
    assert not execution.is_over
    assert drive.until_over(execution, most_seconds=5000).status == "IGNORE_FAILED"


def test_a_retry_in_a_later_stage_keeps_the_failure_of_a_crash_in_an_earlier_one(
    write: Write, drive: Drive
) -> None:
    execution = write(_build_retry_after_failure()).start("1.27")
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.FAIL, result="KeyError in a pass")
    drive.until_over(execution)
    assert any("is tried again" in line for line in drive.log(execution))
    assert execution.failure is not None
    failure = execution.failure
    assert (failure["code"], failure["stage"], failure["step"]) == ("INTERNAL_ERROR", "one", "check")
    assert _get_result(execution) == ("FAILED", "FAILED")


def test_an_abort_names_the_stage_that_it_ended(drive: Drive) -> None:
    execution = drive.start("1.27")
    drive.pass_time(5)
    abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))
    drive.until_over(execution)
    assert execution.failure is not None
    assert execution.failure["stage"] == _get_step(execution).stage.identifier


def _register_scalable_target(drive: Drive) -> None:
    target = {"ServiceNamespace": "ecs", "ScalableDimension": "ecs:service:DesiredCount"}
    bounds = {"ResourceId": "service/demo/myapp", "MinCapacity": 1, "MaxCapacity": 4}
    drive.call("application-autoscaling", "RegisterScalableTarget", {**target, **bounds})


def test_the_next_step_starts_once_scaling_resumed_after_an_ignored_failure(
    write: Write, drive: Drive
) -> None:
    drive.run("1.27")
    _register_scalable_target(drive)
    write(_build_deploy_with_ignored_failure(DEPLOY.replace(": deploy", ": again")))
    drive.sandbox.fault("denied", service="ecs", operation="UpdateService", count=1)
    mark = drive.mark()
    execution = drive.run("1.28")
    assert _get_result(execution) == ("IGNORE_FAILED", "FAILED"), drive.log(execution)[-5:]
    scaling, update = "RegisterScalableTarget", "UpdateService"
    effects = [operation for operation in drive.effects(after=mark) if operation in (scaling, update)]
    assert effects == [scaling, scaling, scaling, update, scaling]
    assert not any("is already suspended" in line for line in drive.log(execution))


def _ignore_failure_while_scaling_cannot_resume(write: Write, drive: Drive) -> Execution:
    drive.run("1.27")
    _register_scalable_target(drive)
    execution = write(_build_deploy_with_ignored_failure(PAUSE)).start("crash")
    steps = StepExecution.objects.filter(stage__execution=execution)
    for _ in range(300):
        drive.pass_time(1)
        if steps.filter(identifier="deploy", status="IGNORE_FAILED").exists():
            return execution
        if steps.filter(actions__name="WaitForSteadyState", actions__state="STARTED").exists():
            drive.sandbox.fault("throttle", operation="RegisterScalableTarget")
    raise AssertionError(drive.log(execution)[-5:])


def test_an_always_action_that_aws_never_answers_does_not_hold_up_the_stage_for_ever(
    write: Write, drive: Drive
) -> None:
    execution = _ignore_failure_while_scaling_cannot_resume(write, drive)
    steps = StepExecution.objects.filter(stage__execution=execution)
    drive.pass_time(LONGEST_START_DELAY.total_seconds() - 60, step=10)
    assert steps.get(identifier="pause").status == "QUEUED"
    drive.pass_time(120, step=10)
    assert steps.get(identifier="pause").started_at is not None
    drive.sandbox.clear_faults()
    drive.pass_time(60, step=10)
    assert ActionRun.objects.get(step__stage__execution=execution, name="ResumeAutoScaling").state == "DONE"


def test_an_outage_of_the_workers_does_not_start_a_step_beside_an_unfinished_always_action(
    write: Write, drive: Drive
) -> None:
    execution = _ignore_failure_while_scaling_cannot_resume(write, drive)
    drive.pass_time(60, step=10)
    outage = LONGEST_START_DELAY.total_seconds() * 2
    drive.clock.move(outage)
    drive.sandbox.advance(outage)
    drive.pass_time(60, step=10)
    pause = StepExecution.objects.get(stage__execution=execution, identifier="pause")
    assert pause.status == "QUEUED"
    drive.sandbox.clear_faults()
    drive.pass_time(60, step=10)
    assert ActionRun.objects.get(step__stage__execution=execution, name="ResumeAutoScaling").state == "DONE"
    pause.refresh_from_db()
    assert pause.started_at is not None
