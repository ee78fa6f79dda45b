"""Each strategy with a version that serves: behind a load balancer, scaled, tagged."""

from collections.abc import Iterator

import pytest
from rest_framework.test import APIClient

from deployments.engine.failpoints import set_hook
from deployments.models import Pipeline
from rbac.keys import create_api_key
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.driving import Drive
from tests.strategies.playing import Play
from tests.strategies.strategies import STRATEGIES, Strategy

__all__ = ["_full_buckets", "drive"]

OF_SCALING = {"ServiceNamespace": "ecs", "ScalableDimension": "ecs:service:DesiredCount"}
TRACKING = {
    "TargetValue": 60.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
}


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    set_hook(None)


@pytest.fixture(params=STRATEGIES, ids=lambda strategy: strategy.name)
def play(request: pytest.FixtureRequest, drive: Drive) -> Play:
    """The strategy, after its first deployment."""
    play = unplayed(request.param, drive)
    execution = play.run("1.27")
    assert play.ends(execution) == ("SUCCESS", "COMPLETED"), execution.failure
    _scale(play)
    play.remember()
    return play


def unplayed(strategy: Strategy, drive: Drive) -> Play:
    """The strategy before its first deployment."""
    drive.pipeline = Pipeline.objects.get(identifier=strategy.pipeline)
    client = APIClient()
    _, token = create_api_key(actor=None, user=drive.deployer, name="stories")
    client.credentials(HTTP_X_API_KEY=token)
    play = Play(strategy, drive, client)
    if strategy.target_group:
        arn = drive.sandbox.seed()["load_balancer"]["target_groups"][strategy.target_group]
        balancer = f"loadBalancers: [{{targetGroupArn: '{arn}', containerName: nginx, containerPort: 80}}]"
        tags = "tags: [{key: team, value: shop}]"
        play.edit(strategy.file, "launchType: FARGATE", f"{balancer}\n{tags}\nlaunchType: FARGATE")
    return play


def _scale(play: Play) -> None:
    about = {**OF_SCALING, "ResourceId": f"service/demo/{play.strategy.service}"}
    call = play.drive.call
    call("application-autoscaling", "RegisterScalableTarget", {**about, "MinCapacity": 1, "MaxCapacity": 4})
    policy = {"PolicyName": "cpu60", "PolicyType": "TargetTrackingScaling"}
    call(
        "application-autoscaling",
        "PutScalingPolicy",
        {**about, **policy, "TargetTrackingScalingPolicyConfiguration": TRACKING},
    )
