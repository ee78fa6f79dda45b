"""The comparer of accounts sees everything that a rollback may leave behind."""

import pytest

from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.account_state import differences, state_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_place_that_differs_is_named() -> None:
    before = {"services": {"a": {"desiredCount": 1, "tags": {}}}, "listeners": {"port 80": [1]}}
    after = {"services": {"a": {"desiredCount": 2, "tags": {}}, "b": {}}, "listeners": {"port 80": [1]}}
    assert differences(before, before) == []
    assert differences(before, after) == [
        "services / a / desiredCount: 1 before, 2 after",
        "services / b: None before, {} after",
    ]


def test_a_rule_a_tag_a_count_and_a_policy_are_all_seen(drive: Drive) -> None:
    drive.run("1.27")
    balancer = drive.sandbox.seed()["load_balancer"]
    before = state_of(drive.call)
    assert state_of(drive.call) == before
    prod, groups = balancer["prod_listener"], balancer["target_groups"]
    forward = [{"Type": "forward", "TargetGroupArn": groups["target2"]}]
    drive.call("elbv2", "ModifyListener", {"ListenerArn": prod["arn"], "DefaultActions": forward})
    drive.call("elbv2", "ModifyRule", {"RuleArn": prod["path_rule_arn"], "Actions": forward})
    drive.call("ecs", "UpdateService", {"cluster": "demo", "service": "myapp", "desiredCount": 2})
    tags = [{"key": "BG_VERSION", "value": "BLUE"}]
    drive.call("ecs", "TagResource", {"resourceArn": drive.service()["serviceArn"], "tags": tags})
    scaled = {
        "ServiceNamespace": "ecs",
        "ScalableDimension": "ecs:service:DesiredCount",
        "ResourceId": "service/demo/myapp",
    }
    drive.call(
        "application-autoscaling", "RegisterScalableTarget", {**scaled, "MinCapacity": 1, "MaxCapacity": 2}
    )
    kinds = [line.partition(":")[0] for line in differences(before, state_of(drive.call))]
    assert kinds == [
        "listeners / port 80 / 10 / forwards",
        "listeners / port 80 / default / forwards",
        "scalable targets / service/demo/myapp",
        "services / myapp / deployments",
        "services / myapp / desiredCount",
        "services / myapp / tags / BG_VERSION",
    ]
