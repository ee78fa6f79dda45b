"""What the settings of the two steps change."""

import pytest

from deployments.execution.operations import abort_execution
from deployments.models import Execution, StepExecution
from pipelines.operations.pipelines import PipelineNotRunnable
from tests.stories.blue_green.conftest import edit
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

PAIR = {"prodListener": "arn:a", "stageListener": "arn:b"}


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_update_green_keeps_the_service_and_brings_it_back(shop: Shop) -> None:
    shop.choose(updateGreenService=True)
    for tag in ("1", "2"):
        shop.run(tag)
    before, arn = shop.state(), shop.service("shop__1")["createdAt"]
    execution = shop.run("3", visited=True)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)
    assert shop.service("shop__1")["createdAt"] == arn
    assert shop.service("shop__1")["runningCount"] == 2
    updates = [call for call in shop.drive.sandbox.journal() if call["operation"] == "UpdateService"]
    assert not {"launchType", "schedulingStrategy", "role"} & set(updates[-2]["params"])
    shop.roll_back(execution, visited=True)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK")
    assert shop.state() == before
    assert shop.meetings == []


def test_the_old_service_stays_where_the_step_says_so(shop: Shop) -> None:
    shop.choose(swap={"doNotDownsizeOldService": True})
    shop.run("1")
    shop.run("2")
    assert [shop.service(name)["runningCount"] for name in ("shop__1", "shop__2")] == [2, 2]
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    assert shop.meetings == []


def test_a_delayed_downsizing_waits_longer_than_the_step_may_take(shop: Shop) -> None:
    shop.run("1")
    shop.choose(swap={"downsizeOldServiceDelayInSecs": 3600})
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("scaled down in 3600 seconds" in line for line in log))
    shop.drive.pass_time(1900, step=100)
    assert shop.service("shop__1")["desiredCount"] == 2
    shop.drive.until_over(execution, 4000)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert shop.service("shop__1")["desiredCount"] == 0
    step = StepExecution.objects.get(stage__execution=execution, identifier="swap")
    assert step.timeout_seconds == 1800 + 3600


def test_a_new_version_that_dies_before_the_downsizing_gives_traffic_back(shop: Shop) -> None:
    shop.run("1")
    before = shop.forwards(shop.prod)
    shop.choose(swap={"downsizeOldServiceDelayInSecs": 600})
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("scaled down in 600 seconds" in line for line in log))
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__2", desiredCount=0)
    shop.until_over(execution)
    assert execution.failure["code"] == "NO_HEALTHY_TARGET", shop.drive.log(execution)[-15:]
    assert shop.service("shop__1")["desiredCount"] == 2
    assert shop.forwards(shop.prod) == before


def test_an_abort_with_rollback_while_the_old_service_still_runs_moves_traffic_back(shop: Shop) -> None:
    shop.run("1")
    before = shop.state()
    shop.choose(swap={"downsizeOldServiceDelayInSecs": 3600})
    execution = shop.drive.start("2")
    shop.pass_until(execution, lambda log: any("scaled down in 3600 seconds" in line for line in log))
    abort_execution(
        actor=shop.drive.deployer, execution=Execution.objects.get(pk=execution.pk), roll_back=True
    )
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("ABORTED", "ROLLED_BACK")
    assert shop.state() == before
    assert shop.meetings == []


def test_as_many_tasks_as_the_live_service_runs(shop: Shop) -> None:
    shop.run("1")
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__1", desiredCount=3)
    shop.drive.pass_time(90)
    shop.choose(sameAsAlreadyRunningInstances=True)
    shop.run("2")
    assert shop.service("shop__2")["runningCount"] == 3


def test_rules_for_a_path_are_swapped_by_themselves(shop: Shop) -> None:
    shop.choose(
        prodListenerRuleArn=shop.prod["path_rule_arn"], stageListenerRuleArn=shop.stage["path_rule_arn"]
    )
    mark = shop.drive.mark()
    execution = shop.run("1")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert shop.forwards(shop.prod, path=True) == [shop.group("api2")]
    assert shop.forwards(shop.prod) == [shop.group("target1")]
    assert shop.drive.effects(mark).count("ModifyRule") == 2
    assert "ModifyListener" not in shop.drive.effects(mark)
    assert any("rule of port 80 for path is /api/*" in line for line in shop.drive.log(execution))


def test_without_a_rule_the_default_rule_of_the_listener_is_meant(shop: Shop) -> None:
    shop.choose(prodListenerRuleArn="", stageListenerRuleArn="")
    assert _get_result(shop.run("1")) == ("SUCCESS", "COMPLETED")
    assert shop.forwards(shop.prod) == [shop.group("target2")]


def test_one_target_group_for_both_rules_is_a_way_to_work(shop: Shop) -> None:
    shop.forward(shop.stage, [{"Type": "forward", "TargetGroupArn": shop.group("target1")}])
    for tag in ("1", "2"):
        assert _get_result(shop.run(tag)) == ("SUCCESS", "COMPLETED")
    before = shop.state()
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    assert shop.service("shop__1")["runningCount"] == 2
    assert shop.service("shop__2")["desiredCount"] == 0
    shop.roll_back(third, visited=True)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(third)
    assert shop.state() == before
    assert shop.meetings == []


def test_weights_and_stickiness_come_back_as_they_were(shop: Shop) -> None:
    groups = [
        {"TargetGroupArn": shop.group(name), "Weight": weight}
        for name, weight in (("target1", 7), ("api1", 3))
    ]
    config = {"TargetGroups": groups, "TargetGroupStickinessConfig": {"Enabled": True, "DurationSeconds": 60}}
    shop.forward(shop.prod, [{"Type": "forward", "ForwardConfig": config}])
    before = shop.actions(shop.prod)
    execution = shop.run("1")
    assert shop.forwards(shop.prod) == [shop.group("target2")]
    assert shop.actions(shop.prod)[0]["ForwardConfig"]["TargetGroupStickinessConfig"]["Enabled"]
    assert shop.forwards(shop.stage) == [shop.group("target1"), shop.group("api1")]
    shop.roll_back(execution)
    assert shop.actions(shop.prod) == before


@pytest.mark.parametrize(
    ("create", "swap", "message"),
    [
        ({"isTrafficShift": True}, {}, "EcsBlueGreenTrafficShift"),
        ({}, {"downsizeOldServiceDelayInSecs": -1}, "from 0 to"),
        ({}, {"downsizeOldServiceDelayInSecs": 99_999_999}, "from 0 to"),
        ({"moreListeners": [{"prodListener": "arn:a"}]}, {}, "moreListeners 1 lacks stageListener"),
        ({"moreListeners": [{**PAIR, "rule": "c"}]}, {}, "moreListeners 1 has 'rule'"),
        ({"moreListeners": ["arn:a"]}, {}, "moreListeners 1 is not a mapping"),
        ({"moreListeners": [dict(PAIR) for _ in range(5)]}, {}, "at most 5 pairs"),
    ],
)
def test_settings_that_cannot_be_are_refused_when_saved(
    shop: Shop, create: dict[str, object], swap: dict[str, object], message: str
) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        shop.choose(swap, **create)
    assert message in str(refused.value.errors)


def test_a_version_that_never_gets_healthy_is_taken_back(shop: Shop) -> None:
    shop.run("1")
    before = shop.state()
    edit("service.yaml", "desiredCount: 2", "desiredCount: 1")
    execution = shop.run("sick", visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), shop.drive.log(execution)
    assert shop.state() == before
    assert shop.meetings == []


def test_a_network_load_balancer_has_listeners_without_rules(shop: Shop) -> None:
    shop.use_network_balancer()
    for tag in ("1", "2"):
        assert _get_result(shop.run(tag)) == ("SUCCESS", "COMPLETED")
    before = shop.state()
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    shop.roll_back(third, visited=True)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(third)
    assert shop.state() == before
    assert shop.meetings == []


def _second_prod_listener(shop: Shop) -> dict[str, str]:
    """A listener for the same version on another port, as HTTPS beside HTTP."""
    arn = shop.call("elbv2", "DescribeLoadBalancers", Names=["demo"])["LoadBalancers"][0]["LoadBalancerArn"]
    response = shop.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=arn,
        Protocol="HTTP",
        Port=9443,
        DefaultActions=shop.actions(shop.prod),
    )
    return {"arn": response["Listeners"][0]["ListenerArn"]}


def test_two_prod_listeners_change_sides_together_and_go_back_together(shop: Shop) -> None:
    second = _second_prod_listener(shop)
    more = {"prodListener": second["arn"], "stageListener": shop.stage["arn"]}
    more["stageListenerRuleArn"] = shop.stage["default_rule_arn"]
    shop.choose(moreListeners=[more])
    first = shop.run("1")
    assert (first.status, first.outcome) == ("SUCCESS", "COMPLETED"), shop.drive.log(first)
    live = shop.forwards(shop.prod)
    assert shop.forwards(second) == live != shop.forwards(shop.stage)
    after = shop.run("2", visited=True)
    assert (after.status, after.outcome) == ("SUCCESS", "COMPLETED"), shop.drive.log(after)
    assert shop.forwards(second) == shop.forwards(shop.prod) != live
    assert shop.forwards(shop.stage) == live
    shop.roll_back(after, visited=True)
    assert after.status == "ROLLED_BACK", shop.drive.log(after)
    assert shop.forwards(second) == shop.forwards(shop.prod) == live
    assert shop.meetings == []


def test_without_the_second_listener_its_traffic_is_not_left_on_a_version_that_goes(shop: Shop) -> None:
    shop.run("1")
    second = _second_prod_listener(shop)
    live = shop.forwards(shop.prod)
    after = shop.run("2")
    assert (after.status, after.outcome) == ("SUCCESS", "COMPLETED"), shop.drive.log(after)
    assert shop.forwards(second) == live
    assert shop.service("shop__1")["runningCount"] == 2
    assert any("still leads to Service shop__1" in line for line in shop.drive.log(after))


def test_a_target_group_may_have_another_port_than_the_container_where_the_step_allows_it(
    shop: Shop,
) -> None:
    edit("task.yaml", "containerPort: 80", "containerPort: 8000")
    edit("service.yaml", "containerPort: 80", "containerPort: 8000")
    refused = shop.run("1")
    assert refused.failure["code"] == "PORT_MISMATCH"
    assert "allowDifferentTargetGroupPort" in refused.failure["message"]
    shop.choose(allowDifferentTargetGroupPort=True)
    allowed = shop.run("1")
    assert (allowed.status, allowed.outcome) == ("SUCCESS", "COMPLETED"), shop.drive.log(allowed)


def _begin_swap_without_a_target(shop: Shop) -> Execution:
    """Return a release of two tasks whose swap waits, because one of them is no target."""
    pause = {"type": "Wait", "identifier": "pause", "name": "pause", "spec": {"duration": "60s"}}
    shop.save(shop.document(between=[{"step": pause}]))
    execution = shop.drive.start("2")
    created = StepExecution.objects.filter(stage__execution=execution, identifier="create", status="SUCCESS")
    shop.pass_until(execution, lambda _: created.exists())
    (group,) = shop.forwards(shop.stage)
    health = shop.call("elbv2", "DescribeTargetHealth", TargetGroupArn=group)["TargetHealthDescriptions"]
    shop.call("elbv2", "DeregisterTargets", TargetGroupArn=group, Targets=[health[0]["Target"]])
    shop.pass_until(execution, lambda log: any("1/2 healthy" in line for line in log))
    return execution


def test_a_swap_waits_only_for_the_targets_that_auto_scaling_keeps(shop: Shop) -> None:
    shop.run("1")
    execution = _begin_swap_without_a_target(shop)
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__2", desiredCount=1)
    shop.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED"), shop.drive.log(execution)[-15:]


def test_a_swap_to_a_version_that_is_scaled_to_zero_fails_at_once(shop: Shop) -> None:
    shop.run("1")
    before = shop.forwards(shop.prod)
    execution = _begin_swap_without_a_target(shop)
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__2", desiredCount=0)
    shop.until_over(execution)
    assert execution.failure["code"] == "NO_HEALTHY_TARGET", shop.drive.log(execution)[-15:]
    assert execution.outcome == "ROLLED_BACK"
    assert shop.forwards(shop.prod) == before
