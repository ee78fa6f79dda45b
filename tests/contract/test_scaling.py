"""Application Auto Scaling has the side effects that AWS documents."""

from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import Aws

PLACE = {
    "ServiceNamespace": "ecs",
    "ResourceId": "service/demo/myapp",
    "ScalableDimension": "ecs:service:DesiredCount",
}
POLICY = {
    "PolicyName": "cpu",
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": {
        "TargetValue": 50.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
    },
}
SUSPENDED = {
    "DynamicScalingInSuspended": True,
    "DynamicScalingOutSuspended": True,
    "ScheduledScalingSuspended": True,
}


@pytest.fixture
def scaling(aws: Aws) -> Any:
    aws.create()
    client = aws.client("application-autoscaling")
    with suppress(client.exceptions.ObjectNotFoundException):
        # It outlives a service of the same name.
        client.deregister_scalable_target(**PLACE)
    return client


def targets(scaling: Any) -> list[dict[str, Any]]:
    response = scaling.describe_scalable_targets(ServiceNamespace="ecs", ResourceIds=[PLACE["ResourceId"]])
    return list(response["ScalableTargets"])


def policies(scaling: Any) -> list[dict[str, Any]]:
    return list(scaling.describe_scaling_policies(**PLACE)["ScalingPolicies"])


@pytest.mark.source("Application Auto Scaling API, RegisterScalableTarget")
def test_registering_moves_the_count_into_its_bounds(aws: Aws, scaling: Any) -> None:
    scaling.register_scalable_target(**PLACE, MinCapacity=2, MaxCapacity=4)
    assert aws.service()["desiredCount"] == 2
    aws.update(desiredCount=4)
    scaling.register_scalable_target(**PLACE, MaxCapacity=3)
    assert aws.service()["desiredCount"] == 3
    assert len(aws.service()["deployments"]) == 1


@pytest.mark.source("Application Auto Scaling API, SuspendedState")
@pytest.mark.needs_sandbox("its journal")
def test_suspending_keeps_bounds_and_policies_and_is_kept(aws: Aws, scaling: Any) -> None:
    scaling.register_scalable_target(**PLACE, MinCapacity=1, MaxCapacity=4)
    arn = scaling.put_scaling_policy(**PLACE, **POLICY)["PolicyARN"]
    scaling.register_scalable_target(**PLACE, SuspendedState=SUSPENDED)
    (target,) = targets(scaling)
    assert target["SuspendedState"] == SUSPENDED
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 4)
    assert [p["PolicyARN"] for p in policies(scaling)] == [arn]
    after = aws.sandbox.last_number()
    scaling.register_scalable_target(**PLACE, SuspendedState=SUSPENDED)
    assert aws.effects(after) == [], "the same values again change nothing"


@pytest.mark.source("Application Auto Scaling API, DeregisterScalableTarget")
def test_deregistering_takes_policies_and_alarms_along(aws: Aws, scaling: Any) -> None:
    scaling.register_scalable_target(**PLACE, MinCapacity=1, MaxCapacity=4)
    scaling.put_scaling_policy(**PLACE, **POLICY)
    scaling.put_scheduled_action(**PLACE, ScheduledActionName="night", Schedule="cron(0 0 * * ? *)")
    assert len(aws.client("cloudwatch").describe_alarms()["MetricAlarms"]) == 2
    scaling.deregister_scalable_target(**PLACE)
    assert targets(scaling) == policies(scaling) == []
    assert scaling.describe_scheduled_actions(ServiceNamespace="ecs")["ScheduledActions"] == []
    assert aws.client("cloudwatch").describe_alarms()["MetricAlarms"] == []


@pytest.mark.source("Application Auto Scaling API, PutScalingPolicy")
def test_a_policy_put_again_keeps_its_arn_and_has_one_pair_of_alarms(aws: Aws, scaling: Any) -> None:
    scaling.register_scalable_target(**PLACE, MinCapacity=1, MaxCapacity=4)
    first = scaling.put_scaling_policy(**PLACE, **POLICY)["PolicyARN"]
    assert scaling.put_scaling_policy(**PLACE, **POLICY)["PolicyARN"] == first
    assert len(aws.client("cloudwatch").describe_alarms()["MetricAlarms"]) == 2


@pytest.mark.source("Application Auto Scaling API, errors")
def test_what_is_not_registered_is_not_found(scaling: Any) -> None:
    for call in (
        lambda: scaling.deregister_scalable_target(**PLACE),
        lambda: scaling.put_scaling_policy(**PLACE, **POLICY),
        lambda: scaling.delete_scaling_policy(**PLACE, PolicyName="cpu"),
    ):
        with pytest.raises(ClientError, match="ObjectNotFoundException"):
            call()


@pytest.mark.source("Application Auto Scaling API, RegisterScalableTarget")
def test_a_target_needs_a_service_and_sane_bounds(scaling: Any) -> None:
    ghost = {**PLACE, "ResourceId": "service/demo/ghost"}
    with pytest.raises(ClientError, match="ECS service doesn't exist"):
        scaling.register_scalable_target(**ghost, MinCapacity=1, MaxCapacity=2)
    with pytest.raises(ClientError, match="Maximum capacity cannot be less"):
        scaling.register_scalable_target(**PLACE, MinCapacity=3, MaxCapacity=2)
