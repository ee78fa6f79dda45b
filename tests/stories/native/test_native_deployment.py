"""Deployments that ECS runs itself, from the first call to their true outcome."""

import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from deployments.approvals.operations import approve_step, reject_step
from deployments.execution.documents import build_execution_document
from deployments.execution.operations import abort_execution, roll_back_execution
from deployments.models import Execution, StepExecution
from tests.stories.native.conftest import Native
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)

STAGES = [
    "SCALE_UP",
    "POST_SCALE_UP",
    "TEST_TRAFFIC_SHIFT",
    "PRODUCTION_TRAFFIC_SHIFT",
    "CLEAN_UP",
]


# What a blue/green deployment of two tasks takes in the sandbox, in its own seconds, and what it is to take.
NATURAL, ROLLOUT = 70.0, 63.0
LONGEST = 200
PAUSE = {"targetType": "PAUSE", "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"]}


def _parse(moment: Any) -> datetime:
    return datetime.fromisoformat(str(moment))


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_a_blue_green_deployment_is_followed_through_its_stages(native: Native) -> None:
    first = native.run("1")
    assert _get_result(first) == ("SUCCESS", "COMPLETED"), "\n".join(native.log(first))
    execution = native.run("2")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    log = native.log(execution)
    assert any(line.startswith("Lifecycle stage SCALE_UP: new tasks start") for line in log)
    assert "Production traffic: 100 % to the new revision" in log
    assert " Deployment Successful." in log
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target2")]
    assert native.deployment()["status"] == "SUCCESSFUL"


def test_a_linear_deployment_shows_each_share_of_the_traffic(native: Native) -> None:
    native.run("1")
    native.choose("LINEAR", linearConfiguration={"stepPercent": 50.0, "stepBakeTimeInMinutes": 1})
    log = native.log(native.run("2"))
    shares = [line for line in log if line.startswith("Production traffic")]
    assert shares == [f"Production traffic: {share} % to the new revision" for share in (50, 100)]


def test_a_crash_is_diagnosed_and_the_traffic_never_moves(native: Native) -> None:
    native.run("1")
    before = native.shop.service("shop")
    execution = native.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert (execution.failure["container"], execution.failure["exit_code"]) == ("web", 1)
    assert native.shop.service("shop")["taskDefinition"] == before["taskDefinition"]
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]
    assert native.deployment()["status"] == "ROLLBACK_SUCCESSFUL"
    operations = [call.operation for call in native.shop.drive.calls(execution)]
    assert operations.count("UpdateService") == operations.count("StopServiceDeployment") == 1


def test_a_failed_first_deployment_is_undone_by_deleting_its_service(native: Native) -> None:
    execution = native.run("crash")
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), native.log(execution)[-12:]
    assert native.shop.service("shop") == {}
    assert "StopServiceDeployment" not in native.shop.drive.effects()


def test_an_alarm_in_the_bake_time_is_told_as_the_cause(native: Native) -> None:
    metric = {"Namespace": "Shop", "MetricName": "Errors", "Period": 60, "EvaluationPeriods": 1}
    rule = {"Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", "Statistic": "Sum"}
    native.shop.call("cloudwatch", "PutMetricAlarm", AlarmName="errors", **metric, **rule)
    native.run("1")
    native.choose(
        "BLUE_GREEN",
        bakeTimeInMinutes=10,
        alarms={"alarmNames": ["errors"], "enable": True, "rollback": True},
    )
    execution = native.shop.drive.start("2")
    native.until_logged(execution, "Lifecycle stage BAKE_TIME")
    state = {"StateValue": "ALARM", "StateReason": "test"}
    native.shop.call("cloudwatch", "SetAlarmState", AlarmName="errors", **state)
    native.shop.drive.until_over(execution)
    assert execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
    assert "errors" in execution.failure["message"]
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]


def test_a_count_that_somebody_sets_to_0_is_no_success(native: Native) -> None:
    native.run("1")
    execution = native.shop.drive.start("crash")
    native.until_logged(execution, "Lifecycle stage SCALE_UP")
    cluster = native.shop.service("shop")["clusterArn"]
    native.shop.call("ecs", "UpdateService", cluster=cluster, service="shop", desiredCount=0)
    native.shop.drive.until_over(execution)
    assert execution.status == "FAILED"
    assert "was changed from 2 to 0 while this deployment ran" in execution.failure["message"]


def test_an_end_that_only_the_last_check_sees_is_no_time_out(native: Native) -> None:
    native.run("1")
    execution = native.shop.drive.start("2")
    native.until_logged(execution, "Lifecycle stage SCALE_UP")
    native.shop.drive.clock.move(600)
    native.shop.drive.sandbox.advance(600)
    assert native.deployment()["status"] == "SUCCESSFUL"
    steps = StepExecution.objects.filter(stage__execution=execution, section="EXECUTION")
    assert steps.update(timeout_at=native.shop.drive.clock.now()) == 1
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), execution.failure


def test_a_stop_by_another_client_is_told_with_its_reason(native: Native) -> None:
    native.run("1")
    native.choose("CANARY", canaryConfiguration={"canaryPercent": 10.0, "canaryBakeTimeInMinutes": 10})
    execution = native.shop.drive.start("2")
    native.until_logged(execution, "Production traffic: 10 %")
    arn = native.deployment()["serviceDeploymentArn"]
    native.shop.call("ecs", "StopServiceDeployment", serviceDeploymentArn=arn, stopType="ROLLBACK")
    native.shop.drive.until_over(execution)
    assert execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
    assert "StopServiceDeployment was called" in execution.failure["message"]


def test_a_pause_is_shown_with_the_command_that_ends_it(native: Native) -> None:
    native.run("1")
    native.choose("BLUE_GREEN", lifecycleHooks=[PAUSE])
    execution = native.shop.drive.start("2")
    native.until_logged(execution, "Paused by a lifecycle hook")
    (detail,) = native.deployment()["lifecycleHookDetails"]
    (command,) = [line for line in native.log(execution) if "continue-service-deployment" in line]
    assert detail["hookId"] in command
    native.end_pause()
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")


def test_an_approved_pause_goes_on(native: Native) -> None:
    native.run("1")
    approver = native.require_approval()
    execution = native.shop.drive.start("2")
    approval = native.until_asked(execution)
    execution.refresh_from_db()
    assert execution.status == "APPROVAL_WAITING"
    assert "POST_TEST_TRAFFIC_SHIFT" in approval.message
    native.shop.drive.pass_time(120)
    assert native.deployment()["status"] == "IN_PROGRESS"
    approve_step(actor=approver, approval=approval, diff=approval.plan_hash)
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), "\n".join(native.log(execution))


def test_each_pause_is_approved_and_the_page_shows_the_newest(native: Native) -> None:
    native.run("1")
    approver = native.require_approval("POST_SCALE_UP", "POST_TEST_TRAFFIC_SHIFT")
    execution = native.shop.drive.start("2")
    for stage in ("POST_SCALE_UP", "POST_TEST_TRAFFIC_SHIFT"):
        approval = native.until_asked(execution)
        assert stage in approval.message
        step = build_execution_document(execution, approver)["stages"][0]["steps"][0]
        assert step["approval"]["id"] == str(approval.pk)
        approve_step(actor=approver, approval=approval, diff=approval.plan_hash)
        native.shop.drive.pass_time(1)
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")


def test_a_rejected_pause_rolls_back_and_names_who_rejected(native: Native) -> None:
    native.run("1")
    approver = native.require_approval()
    execution = native.shop.drive.start("2")
    approval = native.until_asked(execution)
    reject_step(actor=approver, approval=approval, diff=approval.plan_hash, comment="too slow")
    native.shop.drive.until_over(execution)
    assert execution.failure["message"].startswith("admin rejected this: too slow")
    assert native.deployment()["status"] == "ROLLBACK_SUCCESSFUL"
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]


@pytest.mark.parametrize(
    ("action", "result", "target_group"),
    [
        ("ROLLBACK", ("FAILED", "ROLLED_BACK_BY_AWS"), "target1"),
        ("CONTINUE", ("SUCCESS", "COMPLETED"), "target2"),
    ],
)
def test_an_expired_pause_ends_as_ecs_was_configured(
    native: Native, action: str, result: tuple[str, str], target_group: str
) -> None:
    native.run("1")
    native.require_approval(timeoutInMinutes=2, action=action)
    execution = native.shop.drive.start("2")
    approval = native.until_asked(execution)
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == result, native.log(execution)[-12:]
    approval.refresh_from_db()
    assert approval.status in ("EXPIRED", "WITHDRAWN")
    assert native.shop.forwards(native.shop.prod) == [native.shop.group(target_group)]


def test_a_pause_that_another_client_ends_needs_no_approval(native: Native) -> None:
    native.run("1")
    native.require_approval()
    execution = native.shop.drive.start("2")
    approval = native.until_asked(execution)
    (detail,) = native.deployment()["lifecycleHookDetails"]
    arn, hook_id = native.deployment()["serviceDeploymentArn"], detail["hookId"]
    native.shop.call("ecs", "ContinueServiceDeployment", serviceDeploymentArn=arn, hookId=hook_id)
    native.shop.drive.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    approval.refresh_from_db()
    assert approval.status == "WITHDRAWN"


def test_a_deployment_of_63_s_takes_12_calls_and_its_end_is_seen_within_5_s(native: Native) -> None:
    native.run("1")
    drive = native.shop.drive
    mark = drive.mark()
    execution = drive.start("2")
    since = time.monotonic()
    for _ in range(LONGEST):
        drive.clock.move(1)
        drive.sandbox.advance(NATURAL / ROLLOUT)
        drive.reconcile()
        execution.refresh_from_db()
        if execution.is_over:
            break
    real = timedelta(seconds=time.monotonic() - since) / NATURAL * ROLLOUT
    calls = drive.sandbox.journal(mark)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert len(calls) <= 12, [call["operation"] for call in calls]
    (seen,) = [_parse(call["at"]) for call in calls if call["operation"] == "DescribeServiceDeployments"][-1:]
    deployment = native.deployment()
    began, ended = _parse(deployment["startedAt"]), _parse(deployment["finishedAt"])
    took = (ended - began) / NATURAL * ROLLOUT
    assert took >= timedelta(seconds=ROLLOUT - 3)
    # The dates of the sandbox run on with the machine's clock while the test works.
    assert took - real <= timedelta(seconds=ROLLOUT + 3)
    assert (seen - ended) / NATURAL * ROLLOUT <= timedelta(seconds=5)


def test_a_deployment_that_was_under_way_is_followed_and_never_stopped(native: Native) -> None:
    native.run("1")
    native.choose("CANARY", canaryConfiguration={"canaryPercent": 10.0, "canaryBakeTimeInMinutes": 10})
    native.deploy_registered()
    first = native.shop.drive.start("2")
    native.until_logged(first, "Production traffic: 10 %")
    abort_execution(actor=native.shop.drive.deployer, execution=first, roll_back=False)
    native.shop.drive.until_over(first)
    arn = native.deployment()["serviceDeploymentArn"]
    second = native.shop.drive.start("2")
    native.until_logged(second, "Service deployment")
    assert native.deployment()["serviceDeploymentArn"] == arn
    abort_execution(actor=native.shop.drive.deployer, execution=second, roll_back=True)
    native.shop.drive.until_over(second)
    assert (native.deployment()["serviceDeploymentArn"], native.deployment()["status"]) == (
        arn,
        "SUCCESSFUL",
    )
    assert "StopServiceDeployment" not in native.shop.drive.effects()


def test_a_completed_deployment_is_undone_by_one_to_the_earlier_revision(native: Native) -> None:
    native.run("1")
    before = native.shop.service("shop")["taskDefinition"]
    execution = native.run("2")
    native.shop.roll_back(execution)
    assert execution.outcome == "ROLLED_BACK"
    assert native.shop.service("shop")["taskDefinition"] == before
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]


def _begin_paused_rollback(native: Native) -> Execution:
    """Return an execution whose rollback a PAUSE hook of its service definition holds."""
    native.choose("BLUE_GREEN", lifecycleHooks=[PAUSE])
    for tag in ("1", "2"):
        execution = native.shop.drive.start(tag)
        native.until_logged(execution, "Paused by a lifecycle hook")
        native.end_pause()
        native.shop.drive.until_over(execution)
        assert execution.status == "SUCCESS"
    lines = len(native.log(execution))
    roll_back_execution(actor=native.shop.drive.deployer, execution=execution)
    for _ in range(150):
        native.shop.drive.pass_time(1)
        if any(line.startswith("Paused by a lifecycle hook") for line in native.log(execution)[lines:]):
            return execution
    raise AssertionError(native.log(execution)[lines:])


def test_a_paused_rollback_is_shown_with_the_command_that_ends_it(native: Native) -> None:
    execution = _begin_paused_rollback(native)
    arn = native.deployment()["serviceDeploymentArn"]
    assert arn in native.log(execution)[-1]
    native.end_pause()
    native.shop.drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]


def test_a_rollback_that_ecs_rolls_back_needs_a_decision_at_once(native: Native) -> None:
    execution = _begin_paused_rollback(native)
    native.end_pause("ROLLBACK")
    native.shop.drive.pass_time(60)
    execution.refresh_from_db()
    assert execution.status == "INTERVENTION_WAITING", native.log(execution)[-8:]
    assert any("Retry to deploy the earlier revision again" in line for line in native.log(execution))


def test_a_classic_step_refuses_a_strategy_of_ecs(native: Native) -> None:
    document = native.shop.document()
    steps = [{"step": {"type": "EcsRollingDeploy", "identifier": "deploy", "name": "Deploy"}}]
    document["pipeline"]["stages"][0]["stage"]["spec"]["execution"] = {"steps": steps, "rollbackSteps": []}
    with pytest.raises(BadInput) as refused:
        native.shop.save(document)
    assert "EcsNativeDeploy" in str(refused.value.errors)
