"""What was taken over is deployed: a bad version leads back to it, the same one changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from deployments.models import Execution
from inventory.drift.documents.field_rules import TASK_DEFINITION
from inventory.drift.documents.normalization import normalize_document as plain_document
from inventory.models.adoption import Adoption
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import adopted, make, task_definition
from tests.inventory.drift.scans import drifts, state, synced

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "legacy"
_MOVES = {"taskDefinition", "deployments", "events", "currentServiceDeployment", "currentServiceRevisions"}
Maker = Callable[[Drive], object]


def plain(drive: Drive) -> None:
    make(drive, NAME, tags=[{"key": "team", "value": "shop"}], enableECSManagedTags=True)


def in_service_discovery(drive: Drive) -> None:
    registry = "arn:aws:servicediscovery:us-east-1:123456789012:service/srv-utcrh6wavdkggqtk"
    make(drive, NAME, serviceRegistries=[{"registryArn": registry}])


def with_service_connect(drive: Drive) -> None:
    web = task_definition(drive)["containerDefinitions"][0]
    ports = [{"containerPort": 80, "protocol": "tcp", "name": "http", "appProtocol": "http"}]
    connected = {
        "enabled": True,
        "namespace": "internal",
        "services": [{"portName": "http", "clientAliases": [{"port": 80, "dnsName": "legacy"}]}],
    }
    task = {"containerDefinitions": [{**web, "portMappings": ports}]}
    make(drive, NAME, task=task, serviceConnectConfiguration=connected)


def by_capacity_providers(drive: Drive) -> None:
    strategy = [
        {"capacityProvider": "FARGATE", "base": 1, "weight": 1},
        {"capacityProvider": "FARGATE_SPOT", "weight": 3},
    ]
    make(drive, NAME, launchType=None, capacityProviderStrategy=strategy)


def on_machines(drive: Drive) -> None:
    web = task_definition(drive)["containerDefinitions"][0]
    container = {**web, "memory": 128, "portMappings": [{"containerPort": 80, "hostPort": 0}]}
    task = {
        "requiresCompatibilities": ["EC2"],
        "networkMode": "bridge",
        "cpu": None,
        "memory": None,
        "containerDefinitions": [container],
    }
    placed = [{"type": "spread", "field": "attribute:ecs.availability-zone"}]
    make(drive, NAME, task=task, launchType="EC2", networkConfiguration=None, placementStrategy=placed)


def behind_a_load_balancer(drive: Drive) -> None:
    group = drive.sandbox.seed()["load_balancer"]["target_groups"]["api1"]
    balancers = [{"targetGroupArn": group, "containerName": "web", "containerPort": 80}]
    make(drive, NAME, loadBalancers=balancers, healthCheckGracePeriodSeconds=15)


def with_all_of_a_task(drive: Drive) -> None:
    """A sidecar, secrets, EFS, an ephemeral volume, a log, a health check."""
    seed = drive.sandbox.seed()
    web = task_definition(drive)["containerDefinitions"][0]
    log = {
        "logDriver": "awslogs",
        "options": {
            "awslogs-group": seed["log_group"],
            "awslogs-region": "us-east-1",
            "awslogs-stream-prefix": "web",
        },
    }
    mounts = [
        {"sourceVolume": "shared", "containerPath": "/data"},
        {"sourceVolume": "tmp", "containerPath": "/t"},
    ]
    drive.call("secretsmanager", "CreateSecret", {"Name": "db", "SecretString": "a secret of somebody"})
    known = drive.call("secretsmanager", "DescribeSecret", {"SecretId": "db"})["ARN"]
    task = {
        "taskRoleArn": seed["execution_role_arn"],
        "containerDefinitions": [
            {
                **web,
                "secrets": [{"name": "DB", "valueFrom": known}],
                "mountPoints": mounts,
                "logConfiguration": log,
                "healthCheck": {"command": ["CMD-SHELL", "true"], "interval": 30},
                "dependsOn": [{"containerName": "proxy", "condition": "START"}],
            },
            {"name": "proxy", "image": "library/envoy@sha256:" + "a" * 64, "essential": False},
        ],
        "volumes": [
            {
                "name": "shared",
                "efsVolumeConfiguration": {
                    "fileSystemId": "fs-12345678",
                    "transitEncryption": "ENABLED",
                    "authorizationConfig": {"iam": "ENABLED"},
                },
            },
            {"name": "tmp"},
        ],
        "ephemeralStorage": {"sizeInGiB": 40},
        "runtimePlatform": {"cpuArchitecture": "X86_64", "operatingSystemFamily": "LINUX"},
    }
    make(drive, NAME, task=task, propagateTags="SERVICE", enableExecuteCommand=False)


def with_auto_scaling(drive: Drive) -> None:
    make(drive, NAME)
    resource = {
        "ServiceNamespace": "ecs",
        "ResourceId": f"service/demo/{NAME}",
        "ScalableDimension": "ecs:service:DesiredCount",
    }
    drive.call(
        "application-autoscaling", "RegisterScalableTarget", {**resource, "MinCapacity": 1, "MaxCapacity": 4}
    )
    tracking = {
        "TargetValue": 60.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
    }
    policy = {"PolicyName": "cpu", "PolicyType": "TargetTrackingScaling"}
    drive.call(
        "application-autoscaling",
        "PutScalingPolicy",
        {**resource, **policy, "TargetTrackingScalingPolicyConfiguration": tracking},
    )


SERVICES = (
    plain,
    in_service_discovery,
    with_service_connect,
    by_capacity_providers,
    on_machines,
    behind_a_load_balancer,
    with_all_of_a_task,
    with_auto_scaling,
)


@pytest.mark.parametrize("strategy", ["Rolling", "Canary"])
@pytest.mark.parametrize("made", SERVICES, ids=lambda one: one.__name__)
def test_a_bad_version_leads_back_to_what_was_adopted_and_the_same_one_changes_nothing(
    drive: Drive, made: Maker, strategy: str
) -> None:
    made(drive)
    synced()
    service = adopted(NAME, strategy=strategy)
    assert drifts() == []
    before, scaling = drive.service(NAME), _scaling(drive)

    bad = _run(drive, service, "crash")
    assert (bad.status, bad.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(bad)[-8:]
    assert _changed(before, drive.service(NAME)) <= _MOVES - {"taskDefinition"}
    assert _scaling(drive) == scaling
    assert drifts() == []
    assert state(NAME) == DriftComparison.State.IN_STEP

    same = _run(drive, service)
    assert (same.status, same.outcome) == ("SUCCESS", "COMPLETED"), drive.log(same)[-8:]
    after = drive.service(NAME)
    assert _changed(before, after) <= _MOVES
    assert _contents(drive, after["taskDefinition"]) == _contents(drive, before["taskDefinition"])
    assert _scaling(drive) == scaling
    assert drifts() == []
    assert DriftComparison.objects.get(ecs_service__name=NAME).execution == same
    # Behind a load balancer those from before may still finish their requests.
    live = ServiceInstance.objects.filter(ecs_service__name=NAME, stopped_at=None, desired_status="RUNNING")
    assert set(live.values_list("origin", "execution")) == {("EXECUTION", same.pk)}
    assert live.count() == after["desiredCount"]
    assert EcsServiceRecord.objects.get(name=NAME).service == service.service


def _run(drive: Drive, adoption: Adoption, tag: str = "") -> Execution:
    assert adoption.pipeline is not None
    drive.pipeline = adoption.pipeline
    return drive.run(tag)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _contents(drive: Drive, arn: str) -> dict[str, Any]:
    """What a revision says, but not which one it is; defaults are as good as said."""
    found = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    return plain_document(TASK_DEFINITION, found)


def _scaling(drive: Drive) -> list[Any]:
    """What scales the ECS service, as AWS has it."""
    which = {"ServiceNamespace": "ecs"}
    targets = drive.call("application-autoscaling", "DescribeScalableTargets", which)["ScalableTargets"]
    policies = drive.call("application-autoscaling", "DescribeScalingPolicies", which)["ScalingPolicies"]
    return [targets, policies]
