"""Somebody else is in the target groups: named, refused and left alone, before, between and after."""

from typing import Any

import pytest

from deployments.models import Execution
from tests.deployments.preview.comparison import load_preview
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _deploy_other(shop: Shop, group: str, name: str = "other", count: int = 1) -> None:
    """Another application's ECS service in a target group, as somebody made it with the AWS CLI."""
    seed = shop.drive.sandbox.seed()
    response = shop.call(
        "ecs",
        "RegisterTaskDefinition",
        family="other",
        requiresCompatibilities=["FARGATE"],
        networkMode="awsvpc",
        cpu="256",
        memory="512",
        executionRoleArn=seed["execution_role_arn"],
        containerDefinitions=[
            {"name": "web", "image": "library/other:9", "portMappings": [{"containerPort": 80}]}
        ],
    )
    shop.call(
        "ecs",
        "CreateService",
        cluster="demo",
        serviceName=name,
        taskDefinition=response["taskDefinition"]["taskDefinitionArn"],
        desiredCount=count,
        launchType="FARGATE",
        networkConfiguration={
            "awsvpcConfiguration": {
                "subnets": seed["subnets"],
                "securityGroups": [seed["security_group"]],
                "assignPublicIp": "ENABLED",
            }
        },
        loadBalancers=[{"targetGroupArn": group, "containerName": "web", "containerPort": 80}],
    )
    for _ in range(40):
        shop.drive.clock.move(2)
        shop.drive.sandbox.advance(2)


def _check_refusal(shop: Shop, code: str, *words: str) -> None:
    """Preview and run name it, and nothing has changed in AWS."""
    mark = shop.drive.mark()
    failure: Any = load_preview(shop.drive, "1")["steps"][0]["failure"]
    assert failure["code"] == code
    execution = shop.run("1")
    assert execution.status == "FAILED"
    assert execution.failure["code"] == code, shop.drive.log(execution)
    for word in words:
        assert word in failure["message"]
        assert word in execution.failure["message"]
    assert shop.drive.effects(mark) == []


@pytest.mark.parametrize("group", ["target1", "target2"])
def test_another_applications_service_in_either_target_group_is_refused_by_name(
    shop: Shop, group: str
) -> None:
    _deploy_other(shop, shop.group(group))
    _check_refusal(shop, "FOREIGN_SERVICE", "Service other", group)


@pytest.mark.parametrize("group", ["target1", "target2"])
def test_a_target_that_no_task_of_the_cluster_has_is_refused_by_its_address(shop: Shop, group: str) -> None:
    shop.call(
        "elbv2",
        "RegisterTargets",
        TargetGroupArn=shop.group(group),
        Targets=[{"Id": "10.77.3.9", "Port": 80}],
    )
    _check_refusal(shop, "FOREIGN_TARGET", "10.77.3.9:80", group)


def test_a_service_without_tasks_that_names_a_target_group_is_only_told(shop: Shop) -> None:
    _deploy_other(shop, shop.group("target2"), count=0)
    execution = shop.run("1")
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert any("Service other names target group" in line for line in shop.drive.log(execution))


def _created(shop: Shop, tag: str) -> Execution:
    """A release that waits, its new version started, before the swap."""
    document = shop.document()
    steps = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]["steps"]
    waiting = {"type": "Wait", "identifier": "wait", "name": "wait", "spec": {"duration": "10m"}}
    steps.insert(1, {"step": waiting})
    shop.save(document)
    execution = shop.drive.start(tag)
    for _ in range(400):
        shop.drive.pass_time(2, step=2)
        if execution.stages.get().steps.get(identifier="create").status == "SUCCESS":
            return execution
    raise AssertionError(shop.drive.log(execution))


def test_somebody_who_comes_into_a_target_group_before_the_swap_stops_it(shop: Shop) -> None:
    shop.run("1")
    live = shop.forwards(shop.prod)
    second = _created(shop, "2")
    (stage,) = shop.forwards(shop.stage)
    _deploy_other(shop, stage)
    shop.until_over(second)
    assert _get_result(second) == ("FAILED", "ROLLED_BACK"), shop.drive.log(second)
    assert second.failure["code"] == "FOREIGN_SERVICE"
    assert "Service other" in second.failure["message"]
    assert shop.forwards(shop.prod) == live
    assert shop.service("other")["runningCount"] == 1


def test_a_stage_service_that_somebody_else_deployed_before_the_swap_is_not_swapped(shop: Shop) -> None:
    shop.run("1")
    live = shop.forwards(shop.prod)
    old = shop.service("shop__1")["taskDefinition"]
    second = _created(shop, "2")
    shop.call("ecs", "UpdateService", cluster="demo", service="shop__2", taskDefinition=old)
    shop.until_over(second)
    assert second.status == "FAILED"
    assert second.failure["code"] == "SUPERSEDED"
    assert "Somebody else deployed Stage Service shop__2" in second.failure["message"]
    assert shop.forwards(shop.prod) == live


def test_somebody_in_the_live_target_group_right_after_the_swap_brings_traffic_back(shop: Shop) -> None:
    shop.run("1")
    live = shop.forwards(shop.prod)
    execution = shop.drive.start("2")
    (stage,) = shop.forwards(shop.stage)
    # The look right before the swap is over, and AWS lets the first write wait.
    shop.drive.sandbox.fault("throttle", operation="ModifyListener", count=2)
    mark = shop.drive.mark()
    for _ in range(600):
        if "ModifyListener" in [entry["operation"] for entry in shop.drive.sandbox.journal(mark)]:
            break
        shop.drive.pass_time(1)
    shop.call("elbv2", "RegisterTargets", TargetGroupArn=stage, Targets=[{"Id": "10.77.3.9", "Port": 80}])
    shop.until_over(execution, visited=True)
    assert _get_result(execution) == ("FAILED", "ROLLED_BACK"), shop.drive.log(execution)
    assert execution.failure["code"] == "FOREIGN_TARGET"
    assert "since the swap" in execution.failure["message"]
    assert shop.forwards(shop.prod) == live
    assert shop.meetings == []
