"""Each strategy with a version that serves: behind a load balancer, scaled, tagged."""

from collections.abc import Iterator

import pytest
import yaml
from rest_framework.test import APIClient

from catalog.models import Manifest, Service
from deployments.journal.runtime import set_hook
from ops.demo.pipelines import SERVICE_DEFINITION
from pipelines.models import Pipeline
from rbac.operations.api_keys import create_api_key
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.scenario import Play
from tests.stories.strategies.strategies import STRATEGIES, Strategy

__all__ = ["_full_buckets", "drive"]

TARGET = """
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
minCapacity: 1
maxCapacity: 4
"""
POLICY = """
policyName: cpu60
policyType: TargetTrackingScaling
serviceNamespace: ecs
scalableDimension: ecs:service:DesiredCount
targetTrackingScalingPolicyConfiguration:
  targetValue: 60
  predefinedMetricSpecification: {predefinedMetricType: ECSServiceAverageCPUUtilization}
"""


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    set_hook(None)


@pytest.fixture(params=STRATEGIES, ids=lambda strategy: strategy.name)
def play(request: pytest.FixtureRequest, drive: Drive) -> Play:
    """The strategy, with a version that serves."""
    play = unplayed(request.param, drive)
    for _ in range(play.strategy.beginnings):
        execution = play.run(play.strategy.versions[0])
        assert play.get_result(execution) == ("SUCCESS", "COMPLETED"), execution.failure
    play.remember()
    return play


def unplayed(strategy: Strategy, drive: Drive, *, is_plain: bool = False) -> Play:
    """The strategy before its first deployment."""
    drive.pipeline = Pipeline.objects.get(identifier=strategy.pipeline)
    client = APIClient()
    _, token = create_api_key(actor=None, user=drive.deployer, name="stories")
    client.credentials(HTTP_X_API_KEY=token)
    play = Play(strategy, drive, client)
    if strategy.is_of_service and not is_plain:
        _ask_for_scaling(Service.objects.get(identifier=strategy.app))
    if strategy.is_of_service and (strategy.canary_percent or not is_plain):
        play.edit(SERVICE_DEFINITION, *_behind_a_balancer(strategy, drive))
    if strategy.canary_percent:
        _share_traffic(drive, strategy.canary_percent)
    return play


def _share_traffic(drive: Drive, percent: int) -> None:
    """Give the canary of the pipeline a share of the traffic for a while."""
    balancer = drive.sandbox.seed()["load_balancer"]
    (stable,) = drive.call("elbv2", "DescribeTargetGroups", {"Names": ["target1"]})["TargetGroups"]
    copied = ("VpcId", "Protocol", "Port", "TargetType", "HealthCheckIntervalSeconds", "HealthCheckPath")
    created = drive.call(
        "elbv2",
        "CreateTargetGroup",
        {"Name": "canary", "HealthCheckTimeoutSeconds": 5, **{key: stable[key] for key in copied}},
    )
    traffic = {
        "percent": percent,
        "listener": balancer["prod_listener"]["arn"],
        "targetGroup": created["TargetGroups"][0]["TargetGroupArn"],
    }
    document = yaml.safe_load(drive.pipeline.yaml)
    (stage,) = document["pipeline"]["stages"]
    steps = stage["stage"]["spec"]["execution"]["steps"]
    steps[0]["step"]["spec"] = {"traffic": traffic}
    steps.insert(1, {"step": {"identifier": "watch", "type": "Wait", "spec": {"duration": "2m"}}})
    drive.pipeline.yaml = yaml.safe_dump(document)
    drive.pipeline.save(update_fields=["yaml"])


def _ask_for_scaling(service: Service) -> None:
    for identifier, kind, content in (
        ("target", Manifest.Kind.SCALABLE_TARGET, TARGET),
        ("policy", Manifest.Kind.SCALING_POLICY, POLICY),
    ):
        Manifest.objects.create(
            service=service, identifier=identifier, kind=kind, store="Inline", content=content
        )


def _behind_a_balancer(strategy: Strategy, drive: Drive) -> tuple[str, str]:
    """The line of the service definition after which tags come, and a load balancer where there is none."""
    line, added = "launchType: FARGATE\n", "tags: [{key: team, value: shop}]\n"
    if strategy.target_group:
        arn = drive.sandbox.seed()["load_balancer"]["target_groups"][strategy.target_group]
        added += f"loadBalancers: [{{targetGroupArn: '{arn}', containerName: nginx, containerPort: 80}}]\n"
    return line, line + added
