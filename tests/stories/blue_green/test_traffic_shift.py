"""Traffic that moves to the new version by parts: its shares, what ends a shift, and the way back."""

from typing import Any

import pytest

from deployments.execution.operations import abort_execution
from deployments.models import Execution, StepExecution
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

SHIFT = {"steps": [{"weight": 10, "bakeTime": "2m"}, {"weight": 50, "bakeTime": "2m"}, {"weight": 100}]}
ALARM = {
    "AlarmName": "errors",
    "MetricName": "Errors",
    "Namespace": "App",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 1.0,
    "ComparisonOperator": "GreaterThanThreshold",
}


def _deploy_first(shop: Shop, *shifts: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """Deploy a first version, choose shifts for the next, and return what a rollback must bring back."""
    assert shop.run("1").status == "SUCCESS"
    shop.choose(shifts=shifts or (SHIFT,), **settings)
    return {**shop.state(), "weights": shop.weights()}


def _state(shop: Shop) -> dict[str, Any]:
    return {**shop.state(), "weights": shop.weights()}


def _set_alarm(shop: Shop, state: str) -> None:
    shop.call("cloudwatch", "PutMetricAlarm", **ALARM)
    shop.call("cloudwatch", "SetAlarmState", AlarmName="errors", StateValue=state, StateReason="too many")


def _until_shifted(shop: Shop, percent: int, tag: str = "2") -> Execution:
    execution = shop.drive.start(tag)
    line = f"receives {percent} % of production traffic"
    shop.pass_until(execution, lambda log: any(line in text for text in log))
    return execution


def _get_result(execution: Execution) -> tuple[str, str]:
    execution.refresh_from_db()
    return execution.status, execution.outcome


def test_traffic_moves_by_parts_and_the_swap_moves_the_rest(shop: Shop) -> None:
    _deploy_first(shop)
    blue, green = shop.forwards(shop.prod)[0], shop.forwards(shop.stage)[0]
    execution = _until_shifted(shop, 10)
    assert shop.weights() == {blue: 90, green: 10}
    shop.pass_until(execution, lambda log: any("receives 50 %" in text for text in log))
    assert shop.weights() == {blue: 50, green: 50}
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert (shop.forwards(shop.prod), shop.forwards(shop.stage)) == ([green], [blue])
    assert shop.weights() == {green: 1}
    assert shop.meetings == []
    step = StepExecution.objects.get(stage__execution=execution, identifier="shift1")
    assert step.timeout_seconds == 1800 + 240
    assert step.outputs["trafficPercent"] == 100


def test_an_alarm_while_a_share_bakes_gives_the_traffic_back(shop: Shop) -> None:
    before = _deploy_first(shop, {**SHIFT, "alarms": ["errors"]})
    _set_alarm(shop, "OK")
    execution = _until_shifted(shop, 50)
    _set_alarm(shop, "ALARM")
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), shop.drive.log(execution)
    assert execution.failure["code"] == "ALARM"
    assert _state(shop) == before
    assert shop.meetings == []


def test_an_alarm_that_rings_before_the_shift_moves_no_traffic(shop: Shop) -> None:
    before = _deploy_first(shop, {**SHIFT, "alarms": ["errors"]})
    _set_alarm(shop, "ALARM")
    execution = shop.run("2")
    assert execution.failure["code"] == "ALARM"
    assert "before any traffic" in execution.failure["message"]
    assert not any("Modifying" in line for line in shop.drive.log(execution))
    assert _state(shop) == before


def test_weights_and_stickiness_of_the_rule_come_back_exactly(shop: Shop) -> None:
    _deploy_first(shop)
    (blue,) = shop.forwards(shop.prod)
    config = {
        "TargetGroups": [{"TargetGroupArn": blue, "Weight": 7}],
        "TargetGroupStickinessConfig": {"Enabled": True, "DurationSeconds": 120},
    }
    shop.forward(shop.prod, [{"Type": "forward", "ForwardConfig": config}])
    before = shop.actions(shop.prod)
    execution = _until_shifted(shop, 10)
    (action,) = shop.actions(shop.prod)
    assert action["ForwardConfig"]["TargetGroupStickinessConfig"]["DurationSeconds"] == 120
    assert any("the shares hold for new clients" in line for line in shop.drive.log(execution))
    abort_execution(actor=shop.drive.deployer, execution=execution, roll_back=True)
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK"), shop.drive.log(execution)
    assert shop.actions(shop.prod) == before


def test_weights_that_somebody_else_writes_end_the_shift_and_stay(shop: Shop) -> None:
    _deploy_first(shop)
    blue, green = shop.forwards(shop.prod)[0], shop.forwards(shop.stage)[0]
    execution = _until_shifted(shop, 10)
    groups = [{"TargetGroupArn": blue, "Weight": 70}, {"TargetGroupArn": green, "Weight": 30}]
    shop.forward(shop.prod, [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}])
    shop.until_over(execution)
    assert _get_result(execution) == ("FAILED", "SUPERSEDED"), shop.drive.log(execution)
    assert "(70)" in execution.failure["message"]
    assert shop.weights() == {blue: 70, green: 30}
    assert shop.service("shop__2")["runningCount"] == 2


def test_a_new_version_that_dies_while_it_bakes_loses_its_share(shop: Shop) -> None:
    before = _deploy_first(shop)
    execution = _until_shifted(shop, 10)
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__2", desiredCount=0)
    shop.until_over(execution)
    assert _get_result(execution)[0] == "FAILED"
    assert execution.failure["code"] == "NO_HEALTHY_TARGET"
    assert shop.weights() == before["weights"]


def test_a_failed_step_between_two_shifts_gives_the_share_back(shop: Shop) -> None:
    _set_alarm(shop, "OK")
    watch = {"type": "Verify", "identifier": "watch", "name": "Watch", "timeout": "10m"}
    verify = {"step": {**watch, "spec": {"alarms": ["errors"], "duration": "2m"}}}
    shares = [{"steps": [{"weight": weight}]} for weight in (10, 100)]
    _deploy_first(shop, *shares, between=[verify])
    assert _get_result(shop.run("2", visited=True)) == ("SUCCESS", "COMPLETED")
    before = _state(shop)
    execution = _until_shifted(shop, 10, "3")
    _set_alarm(shop, "ALARM")
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK")
    assert shop.weights() == before["weights"]
    assert shop.meetings == []


def test_a_release_by_parts_is_rolled_back_after_its_end(shop: Shop) -> None:
    before = _deploy_first(shop)
    execution = shop.run("2")
    shop.roll_back(execution, visited=True)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(execution)
    assert _state(shop) == before
    assert shop.meetings == []


def test_a_first_version_shares_no_traffic(shop: Shop) -> None:
    shop.choose(shifts=(SHIFT,))
    execution = shop.run("1")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert any("there is nothing to share" in line for line in shop.drive.log(execution))
    assert execution.notes == []


def test_a_network_load_balancer_has_no_weights(shop: Shop) -> None:
    shop.use_network_balancer()
    shop.choose(loadBalancer="net", shifts=(SHIFT,))
    execution = shop.run("1")
    assert execution.failure["code"] == "NO_WEIGHTS"
