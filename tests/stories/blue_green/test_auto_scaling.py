"""Auto scaling in a blue/green deployment: attached to the new service, taken off the old one, never lost."""

from typing import Any

import pytest

from catalog.models import Manifest, Service
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution
from tests.stories.blue_green.shop import Shop

pytestmark = pytest.mark.django_db(transaction=True)

TARGET = """
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
minCapacity: 2
maxCapacity: 6
"""
POLICY = """
policyName: half
policyType: TargetTrackingScaling
targetTrackingScalingPolicyConfiguration:
  targetValue: 50
  predefinedMetricSpecification: {predefinedMetricType: ECSServiceAverageCPUUtilization}
"""


@pytest.fixture
def scaled(shop: Shop) -> Shop:
    """The shop, with a scalable target and a policy among its manifests."""
    service = Service.objects.get(identifier="shop")
    for kind, text in ((Manifest.Kind.SCALABLE_TARGET, TARGET), (Manifest.Kind.SCALING_POLICY, POLICY)):
        Manifest.objects.create(
            service=service, identifier=str(kind), kind=kind, store="Inline", content=text
        )
    return shop


def _scaling(shop: Shop, name: str) -> dict[str, Any]:
    """Return the scaling settings of a service that a rollback must restore."""
    place = {"ServiceNamespace": "ecs", "ResourceIds": [f"service/demo/{name}"]}
    targets = shop.call("application-autoscaling", "DescribeScalableTargets", **place)["ScalableTargets"]
    if not targets:
        return {}
    place = {"ServiceNamespace": "ecs", "ResourceId": f"service/demo/{name}"}
    policies = shop.call("application-autoscaling", "DescribeScalingPolicies", **place)["ScalingPolicies"]
    return {
        "bounds": (targets[0]["MinCapacity"], targets[0]["MaxCapacity"]),
        "suspended": any(targets[0]["SuspendedState"].values()),
        "policies": sorted(policy["PolicyName"] for policy in policies),
    }


ACTIVE = {"bounds": (2, 6), "suspended": False, "policies": ["half"]}
SUSPENDED = {**ACTIVE, "suspended": True}


def _get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def _both(shop: Shop) -> list[dict[str, Any]]:
    return [_scaling(shop, name) for name in ("shop__1", "shop__2")]


@pytest.mark.parametrize(("in_swap", "update"), [(False, True), (True, False)])
def test_the_live_service_scales_and_the_old_one_does_not(scaled: Shop, in_swap: bool, update: bool) -> None:
    scaled.choose(enableAutoScalingInSwapStep=in_swap, updateGreenService=update)
    assert _get_result(scaled.run("1")) == ("SUCCESS", "COMPLETED")
    assert _both(scaled) == [ACTIVE, {}]
    second = scaled.run("2")
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), scaled.drive.log(second)
    assert _both(scaled) == [SUSPENDED, ACTIVE]
    third = scaled.run("3")
    assert _get_result(third) == ("SUCCESS", "COMPLETED"), scaled.drive.log(third)
    assert _both(scaled) == [ACTIVE, SUSPENDED]
    scaled.roll_back(third)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), scaled.drive.log(third)
    assert _both(scaled) == [SUSPENDED, ACTIVE]


@pytest.mark.parametrize("in_swap", [False, True])
def test_scaling_is_attached_in_the_step_that_was_chosen(scaled: Shop, in_swap: bool) -> None:
    scaled.choose(enableAutoScalingInSwapStep=in_swap)
    scaled.run("1")
    effects = scaled.drive.effects()
    assert (effects.index("ModifyListener") < effects.index("RegisterScalableTarget")) is in_swap


def test_scaling_goes_on_at_the_end_of_the_rollback_after_traffic_is_back(scaled: Shop) -> None:
    scaled.run("1")
    second = scaled.run("2")
    mark = scaled.drive.mark()
    scaled.roll_back(second)
    effects = scaled.drive.effects(mark)
    resumed = max(at for at, effect in enumerate(effects) if effect == "RegisterScalableTarget")
    assert effects.index("ModifyListener") < resumed
    assert _scaling(scaled, "shop__1") == ACTIVE


def test_with_one_rule_for_both_scaling_leaves_the_old_service_in_the_create_step(scaled: Shop) -> None:
    scaled.choose(stageListener=scaled.prod["arn"], stageListenerRuleArn=scaled.prod["default_rule_arn"])
    assert _get_result(scaled.run("1")) == ("SUCCESS", "COMPLETED")
    mark = scaled.drive.mark()
    second = scaled.run("2")
    assert _get_result(second) == ("SUCCESS", "COMPLETED"), scaled.drive.log(second)
    effects = scaled.drive.effects(mark)
    assert effects.index("RegisterScalableTarget") < effects.index("CreateService")
    assert _both(scaled) == [SUSPENDED, ACTIVE]
    scaled.roll_back(second)
    assert _both(scaled) == [ACTIVE, {}]


def test_a_scaled_out_service_is_replaced_by_as_many_tasks(scaled: Shop) -> None:
    scaled.run("1")
    scaled.call("ecs", "UpdateService", cluster="demo", service="shop__1", desiredCount=4)
    scaled.drive.pass_time(90)
    scaled.run("2")
    assert scaled.service("shop__2")["runningCount"] == 4


def test_the_live_service_keeps_its_scaling_when_the_swap_is_refused(scaled: Shop) -> None:
    scaled.run("1")
    scaled.drive.sandbox.fault("denied", operation="ModifyListener")
    second = scaled.run("2")
    assert _get_result(second) == ("FAILED", "ROLLED_BACK"), scaled.drive.log(second)
    assert _both(scaled) == [ACTIVE, {}]


def test_the_old_version_does_not_scale_in_while_it_shares_its_traffic(scaled: Shop) -> None:
    assert scaled.run("1").status == "SUCCESS"
    shares = [{"weight": 10, "bakeTime": "1m"}, {"weight": 50, "bakeTime": "1m"}]
    scaled.choose(shifts=[{"steps": [share]} for share in shares])
    execution = scaled.drive.start("2")
    scaled.pass_until(execution, lambda log: any("receives 50 %" in line for line in log))
    place = {"ServiceNamespace": "ecs", "ResourceIds": ["service/demo/shop__1"]}
    (target,) = scaled.call("application-autoscaling", "DescribeScalableTargets", **place)["ScalableTargets"]
    assert target["SuspendedState"] == {
        "DynamicScalingInSuspended": True,
        "DynamicScalingOutSuspended": False,
        "ScheduledScalingSuspended": False,
    }
    scaled.until_over(execution)
    assert _get_result(execution) == ("SUCCESS", "COMPLETED")
    assert _scaling(scaled, "shop__1") == SUSPENDED
    scaled.roll_back(execution)
    assert _get_result(execution) == ("ROLLED_BACK", "ROLLED_BACK"), scaled.drive.log(execution)
    assert _scaling(scaled, "shop__1") == ACTIVE


@pytest.mark.parametrize("operation", ["RegisterScalableTarget", "PutScalingPolicy"])
def test_a_rollback_tried_again_attaches_the_scaling_that_was_denied_to_the_recreated_service(
    scaled: Shop, operation: str
) -> None:
    for tag in ("1", "2"):
        scaled.run(tag)
    third = scaled.run("3")
    mark = scaled.drive.mark()
    roll_back_execution(actor=scaled.drive.deployer, execution=third)
    scaled.drive.reconcile()
    scaled.pass_until(third, lambda _log: "DeleteService" in scaled.drive.effects(mark))
    _deregister_as_aws_does(scaled, "shop__1")
    scaled.drive.sandbox.fault("denied", operation=operation)
    third.refresh_from_db()
    scaled.until_over(third)
    assert any("Not restored: Delete the old stage service" in line for line in scaled.drive.log(third))
    assert _get_result(third) == ("FAILED", "FAILED")
    scaled.drive.sandbox.clear_faults()
    scaled.roll_back(third)
    assert _get_result(third) == ("ROLLED_BACK", "ROLLED_BACK"), scaled.drive.log(third)
    assert _both(scaled) == [SUSPENDED, ACTIVE]


def _deregister_as_aws_does(shop: Shop, name: str) -> None:
    """Deregister the scalable target of a deleted service."""
    shop.call(
        "application-autoscaling",
        "DeregisterScalableTarget",
        ServiceNamespace="ecs",
        ScalableDimension="ecs:service:DesiredCount",
        ResourceId=f"service/demo/{name}",
    )
