"""A service changes its strategy: production runs one version afterwards, and nothing is left behind."""

from typing import Any

import pytest
import yaml

from connectors.models import FileNode
from deployments.models import Execution, RollbackCheck
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User
from tests.stories.blue_green.conftest import FOLDER, edit
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

GROUP = "<+targetGroupArn>"


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _choose_rolling(shop: Shop, group: str, steps: tuple[str, ...] = ("EcsRollingDeploy",)) -> None:
    """The same service with another strategy, and a service definition that names its target group."""
    document = shop.document()
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    execution["steps"] = [
        {"step": {"type": type_, "identifier": type_.lower(), "name": type_}} for type_ in steps
    ]
    execution["rollbackSteps"] = [
        {"step": {"type": "EcsRollingRollback", "identifier": "rollback", "name": "Rollback"}}
    ]
    if "EcsCanaryDeploy" in steps:
        back = {"step": {"type": "EcsCanaryDelete", "identifier": "canary_back", "name": "Canary back"}}
        execution["rollbackSteps"].append(back)
    shop.drive.pipeline = save_pipeline(
        actor=User.objects.get(username="admin"),
        scope=Scope.objects.get(identifier="demo"),
        yaml=yaml.safe_dump(document),
        pipeline=shop.drive.pipeline,
    )
    _name_group(group)


def _choose_blue_green(shop: Shop) -> None:
    _name_group(GROUP)
    shop.choose()


def _name_group(group: str) -> None:
    node: Any = FileNode.objects.get(path=f"{FOLDER}/service.yaml")
    document = yaml.safe_load(node.content)
    document["loadBalancers"][0]["targetGroupArn"] = group
    node.content = yaml.safe_dump(document)
    node.save()


def _live_tags(shop: Shop) -> dict[str, int]:
    """The image tags behind the prod rule, with how many targets each has: what users meet."""
    (group,) = shop.forwards(shop.prod)
    descriptions = shop.call("elbv2", "DescribeTargetHealth", TargetGroupArn=group)[
        "TargetHealthDescriptions"
    ]
    addresses = {
        description["Target"]["Id"]
        for description in descriptions
        if description["TargetHealth"]["State"] != "draining"
    }
    arns = shop.call("ecs", "ListTasks", cluster="demo")["taskArns"]
    tasks = shop.call("ecs", "DescribeTasks", cluster="demo", tasks=arns)["tasks"] if arns else []
    tags: dict[str, int] = {}
    for task in tasks:
        details = {detail["name"]: detail["value"] for detail in task["attachments"][0]["details"]}
        if details.get("privateIPv4Address") in addresses:
            tag = task["containers"][0]["image"].rpartition(":")[2]
            tags[tag] = tags.get(tag, 0) + 1
    assert sum(tags.values()) == len(addresses)
    return tags


def _counts(shop: Shop) -> dict[str, int]:
    names = ("shop", "shopCanary", "shop__1", "shop__2")
    return {name: service["runningCount"] for name in names if (service := shop.service(name))}


def test_from_rolling_to_blue_green_and_back_production_runs_one_version(shop: Shop) -> None:
    _choose_rolling(shop, shop.group("target1"))
    assert _get_result(shop.run("1")) == ("SUCCESS", "COMPLETED")
    assert _live_tags(shop) == {"1": 2}

    _choose_blue_green(shop)
    second = shop.run("2", visited=True)
    log = shop.drive.log(second)
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), log
    assert any("Service shop receives production traffic (2/2 tasks" in line for line in log)
    assert any("registered in target1/" in line and ": 2)" in line for line in log)
    assert any("goes to Service shop__1 alone: healthy targets 2" in line for line in log)
    assert _live_tags(shop) == {"2": 2}
    assert _counts(shop) == {"shop": 0, "shop__1": 2}

    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    assert _live_tags(shop) == {"3": 2}
    assert _counts(shop) == {"shop": 0, "shop__1": 0, "shop__2": 2}

    (live,) = shop.forwards(shop.prod)
    _choose_rolling(shop, live)
    fourth = shop.run("4", visited=True)
    assert _get_result(fourth) == ("SUCCESS", "COMPLETED"), shop.drive.log(fourth)
    assert _live_tags(shop) == {"4": 2}
    assert _counts(shop) == {"shop": 2, "shop__1": 0, "shop__2": 0}

    shop.roll_back(fourth, visited=True)
    assert _get_result(fourth) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(fourth)
    assert _live_tags(shop) == {"3": 2}
    assert shop.meetings == []


def test_a_rollback_of_the_first_blue_green_release_brings_the_rolling_service_back(shop: Shop) -> None:
    _choose_rolling(shop, shop.group("target1"))
    shop.run("1")
    _choose_blue_green(shop)
    second = shop.run("2")
    shop.roll_back(second, visited=True)
    assert _get_result(second) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(second)
    assert _live_tags(shop) == {"1": 2}
    assert _counts(shop) == {"shop": 2}
    assert shop.meetings == []


def test_from_blue_green_to_canary_and_rolling_the_pair_is_scaled_down(shop: Shop) -> None:
    shop.run("1")
    (live,) = shop.forwards(shop.prod)
    _choose_rolling(shop, live, ("EcsCanaryDeploy", "EcsCanaryDelete", "EcsRollingDeploy"))
    second = shop.run("2", visited=True)
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), shop.drive.log(second)
    assert _live_tags(shop) == {"2": 2}
    assert _counts(shop) == {"shop": 2, "shop__1": 0}
    assert shop.meetings == []


def test_without_a_count_in_the_manifest_a_rolling_service_takes_over_that_of_the_pair(shop: Shop) -> None:
    edit("service.yaml", "desiredCount: 2", "desiredCount: 3")
    shop.run("1")
    edit("service.yaml", "desiredCount: 3\n", "")
    (live,) = shop.forwards(shop.prod)
    _choose_rolling(shop, live)
    second = shop.run("2", visited=True)
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), shop.drive.log(second)
    assert _live_tags(shop) == {"2": 3}


def _retry_once(shop: Shop) -> None:
    """Let the rolling deployment be tried again once, and then be rolled back."""
    document = yaml.safe_load(shop.drive.pipeline.yaml)
    (step,) = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    back = {"action": {"type": "StageRollback"}}
    spec = {"retryCount": 1, "retryIntervals": ["60s"], "onRetryFailure": back}
    action = {"errors": ["AllErrors"], "action": {"type": "Retry", "spec": spec}}
    step["step"]["failureStrategies"] = [{"onFailure": action}]
    shop.save(document)


def test_the_count_taken_over_from_a_pair_is_restored_after_a_retry_that_left_it_as_it_was(
    shop: Shop,
) -> None:
    edit("service.yaml", "desiredCount: 2", "desiredCount: 3")
    _choose_rolling(shop, shop.group("target1"))
    shop.run("1")
    _choose_blue_green(shop)
    shop.run("2")
    edit("service.yaml", "desiredCount: 3\n", "")
    (live,) = shop.forwards(shop.prod)
    _choose_rolling(shop, live)
    _retry_once(shop)
    third = shop.run("nopull", visited=True)
    assert _get_result(third) == ("FAILED", "ROLLED_BACK"), shop.drive.log(third)
    updates = [
        call.parsed_parameters for call in shop.drive.calls(third) if call.operation == "UpdateService"
    ]
    assert [update.get("desiredCount") for update in updates] == [3, None, 0]
    assert shop.service("shop")["desiredCount"] == 0
    check = RollbackCheck.objects.get(subject="Desired count of Service shop")
    assert (check.passed, check.expected, check.actual, check.note) == (True, "0", "0", "")
    assert _live_tags(shop) == {"2": 3}
    assert shop.meetings == []


def test_a_rolling_deployment_beside_a_pair_that_serves_elsewhere_is_refused_before_anything_changes(
    shop: Shop,
) -> None:
    shop.run("1")
    shop.run("2")
    (live,) = shop.forwards(shop.prod)
    (idle,) = shop.forwards(shop.stage)
    _choose_rolling(shop, idle)
    mark = shop.drive.mark()
    third = shop.run("3")
    assert third.status == "FAILED"
    assert third.failure["code"] == "STRATEGY_CHANGED", third.failure
    assert "shop__2" in third.failure["message"]
    assert live in third.failure["message"]
    assert shop.drive.effects(mark) == []
    assert _live_tags(shop) == {"2": 2}


def test_an_unfinished_canary_is_named_before_a_swap_would_leave_it_behind(shop: Shop) -> None:
    _choose_rolling(shop, shop.group("target1"), ("EcsRollingDeploy", "EcsCanaryDeploy"))
    shop.run("1")
    assert _counts(shop) == {"shop": 2, "shopCanary": 1}
    _choose_blue_green(shop)
    mark = shop.drive.mark()
    second = shop.run("2")
    assert second.failure["code"] == "CANARY_NOT_FINISHED"
    assert "shopCanary" in second.failure["message"]
    assert "under Leftovers" in second.failure["message"]
    assert shop.drive.effects(mark) == []


def _scale(shop: Shop, name: str, least: int, most: int) -> None:
    """Auto scaling of an ECS service, as somebody set it up."""
    shop.call(
        "application-autoscaling",
        "RegisterScalableTarget",
        ServiceNamespace="ecs",
        ResourceId=f"service/demo/{name}",
        ScalableDimension="ecs:service:DesiredCount",
        MinCapacity=least,
        MaxCapacity=most,
    )


def _suspended(shop: Shop, name: str) -> bool:
    targets = shop.call(
        "application-autoscaling",
        "DescribeScalableTargets",
        ServiceNamespace="ecs",
        ResourceIds=[f"service/demo/{name}"],
    )["ScalableTargets"]
    return any(targets[0].get("SuspendedState", {}).values())


def test_auto_scaling_of_the_rolling_service_rests_while_the_pair_serves_and_goes_on_after(
    shop: Shop,
) -> None:
    _choose_rolling(shop, shop.group("target1"))
    shop.run("1")
    _scale(shop, "shop", 1, 9)
    _choose_blue_green(shop)
    shop.run("2")
    assert _suspended(shop, "shop")
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__1", desiredCount=4)
    for _ in range(60):
        shop.drive.pass_time(2, step=2)
    _scale(shop, "shop__1", 2, 9)
    (live,) = shop.forwards(shop.prod)
    _choose_rolling(shop, live)
    third = shop.run("3", visited=True)
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), shop.drive.log(third)
    # As many as the pair ran, not what a manifest or the least of its bounds says.
    assert _live_tags(shop) == {"3": 4}
    assert not _suspended(shop, "shop")
    assert _suspended(shop, "shop__1")
    shop.roll_back(third, visited=True)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), shop.drive.log(third)
    assert _live_tags(shop) == {"2": 4}
    assert _suspended(shop, "shop")
    assert not _suspended(shop, "shop__1")
    assert shop.meetings == []


def _register_also_in(shop: Shop, group: str) -> None:
    """Let the service definition name one more target group, as it is."""
    node: Any = FileNode.objects.get(path=f"{FOLDER}/service.yaml")
    document = yaml.safe_load(node.content)
    document["loadBalancers"].append({**document["loadBalancers"][0], "targetGroupArn": group})
    node.content = yaml.safe_dump(document)
    node.save()


def _other_balancers_group(shop: Shop) -> str:
    """A target group behind a load balancer that the pipeline does not name, as for callers inside."""
    seed = shop.drive.sandbox.seed()
    response = shop.call(
        "elbv2", "CreateLoadBalancer", Name="inside", Type="network", Subnets=seed["subnets"]
    )
    settings = {"Protocol": "TCP", "Port": 80, "VpcId": seed["vpc"], "TargetType": "ip"}
    group = shop.call("elbv2", "CreateTargetGroup", Name="inside", **settings)["TargetGroups"][0]
    shop.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=response["LoadBalancers"][0]["LoadBalancerArn"],
        Protocol="TCP",
        Port=80,
        DefaultActions=[{"Type": "forward", "TargetGroupArn": group["TargetGroupArn"]}],
    )
    return str(group["TargetGroupArn"])


def test_a_pair_that_serves_from_one_more_target_group_is_not_scaled_down(shop: Shop) -> None:
    inside = _other_balancers_group(shop)
    _register_also_in(shop, inside)
    first = shop.run("1")
    assert _get_result(first) == ("SUCCESS", "COMPLETED"), shop.drive.log(first)
    assert any("no pair of listeners swaps it" in line for line in shop.drive.log(first))
    (live,) = shop.forwards(shop.prod)
    node: Any = FileNode.objects.get(path=f"{FOLDER}/service.yaml")
    document = yaml.safe_load(node.content)
    document["loadBalancers"].pop()
    node.content = yaml.safe_dump(document)
    node.save()
    _choose_rolling(shop, live)
    mark = shop.drive.mark()
    second = shop.run("2")
    assert second.failure["code"] == "STRATEGY_CHANGED", second.failure
    assert inside in second.failure["message"]
    assert shop.drive.effects(mark) == []


def test_a_target_group_of_another_rule_that_no_release_would_swap_is_refused(shop: Shop) -> None:
    _register_also_in(shop, shop.group("api1"))
    mark = shop.drive.mark()
    execution = shop.run("1")
    assert execution.failure["code"] == "TARGET_GROUP_NOT_SWAPPED", execution.failure
    assert "moreListeners" in execution.failure["message"]
    assert "<+targetGroupArn2>" in execution.failure["message"]
    assert shop.drive.effects(mark) == []
