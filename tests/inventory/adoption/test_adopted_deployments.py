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
from tests.inventory.adoption.foreign_services import (
    adopt,
    build_task_definition,
    create_foreign_service,
    wait_until_steady,
)
from tests.inventory.drift.scans import get_state, list_drifts, sync_cluster

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "legacy"
_MOVES = {"taskDefinition", "deployments", "events", "currentServiceDeployment", "currentServiceRevisions"}
Maker = Callable[[Drive], object]


def create_plain(drive: Drive) -> None:
    create_foreign_service(drive, NAME, tags=[{"key": "team", "value": "shop"}], enableECSManagedTags=True)


def create_with_service_discovery(drive: Drive) -> None:
    registry = "arn:aws:servicediscovery:us-east-1:123456789012:service/srv-utcrh6wavdkggqtk"
    create_foreign_service(drive, NAME, serviceRegistries=[{"registryArn": registry}])


def create_with_service_connect(drive: Drive) -> None:
    web_container = build_task_definition(drive)["containerDefinitions"][0]
    ports = [{"containerPort": 80, "protocol": "tcp", "name": "http", "appProtocol": "http"}]
    connect_configuration = {
        "enabled": True,
        "namespace": "internal",
        "services": [{"portName": "http", "clientAliases": [{"port": 80, "dnsName": "legacy"}]}],
    }
    task = {"containerDefinitions": [{**web_container, "portMappings": ports}]}
    create_foreign_service(drive, NAME, task=task, serviceConnectConfiguration=connect_configuration)


def create_with_capacity_providers(drive: Drive) -> None:
    strategy = [
        {"capacityProvider": "FARGATE", "base": 1, "weight": 1},
        {"capacityProvider": "FARGATE_SPOT", "weight": 3},
    ]
    create_foreign_service(drive, NAME, launchType=None, capacityProviderStrategy=strategy)


def create_on_ec2(drive: Drive) -> None:
    web_container = build_task_definition(drive)["containerDefinitions"][0]
    container = {**web_container, "memory": 128, "portMappings": [{"containerPort": 80, "hostPort": 0}]}
    task = {
        "requiresCompatibilities": ["EC2"],
        "networkMode": "bridge",
        "cpu": None,
        "memory": None,
        "containerDefinitions": [container],
    }
    strategy = [{"type": "spread", "field": "attribute:ecs.availability-zone"}]
    create_foreign_service(
        drive, NAME, task=task, launchType="EC2", networkConfiguration=None, placementStrategy=strategy
    )


def create_with_load_balancer(drive: Drive) -> None:
    group = drive.sandbox.seed()["load_balancer"]["target_groups"]["api1"]
    balancers = [{"targetGroupArn": group, "containerName": "web", "containerPort": 80}]
    create_foreign_service(drive, NAME, loadBalancers=balancers, healthCheckGracePeriodSeconds=15)


def create_with_strategy_of_ecs(drive: Drive) -> None:
    """Create a service that ECS deploys blue/green, with a bake time, a pause and a function."""
    balancer = drive.sandbox.seed()["load_balancer"]
    advanced = {
        "alternateTargetGroupArn": balancer["target_groups"]["target2"],
        "productionListenerRule": balancer["prod_listener"]["default_rule_arn"],
        "testListenerRule": balancer["stage_listener"]["default_rule_arn"],
        "roleArn": "arn:aws:iam::123456789012:role/ecsInfrastructureRoleForLoadBalancers",
    }
    target = {"targetGroupArn": balancer["target_groups"]["target1"], "containerName": "web"}
    function = "arn:aws:lambda:us-east-1:123456789012:function:smoke-test"
    hooks = [
        {
            "hookTargetArn": function,
            "roleArn": "arn:aws:iam::123456789012:role/hooks",
            "lifecycleStages": ["POST_SCALE_UP"],
        },
    ]
    create_foreign_service(
        drive,
        NAME,
        loadBalancers=[{**target, "containerPort": 80, "advancedConfiguration": advanced}],
        deploymentConfiguration={
            "strategy": "BLUE_GREEN",
            "bakeTimeInMinutes": 1,
            "lifecycleHooks": hooks,
        },
    )
    wait_until_steady(drive, 300)


def create_with_all_fields(drive: Drive) -> None:
    """Create a service with sidecar, secrets, EFS, ephemeral volume, log and health check."""
    seed = drive.sandbox.seed()
    web_container = build_task_definition(drive)["containerDefinitions"][0]
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
    secret_arn = drive.call("secretsmanager", "DescribeSecret", {"SecretId": "db"})["ARN"]
    task = {
        "taskRoleArn": seed["execution_role_arn"],
        "containerDefinitions": [
            {
                **web_container,
                "secrets": [{"name": "DB", "valueFrom": secret_arn}],
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
    create_foreign_service(drive, NAME, task=task, propagateTags="SERVICE", enableExecuteCommand=False)


def create_with_auto_scaling(drive: Drive) -> None:
    create_foreign_service(drive, NAME)
    resource = {
        "ServiceNamespace": "ecs",
        "ResourceId": f"service/demo/{NAME}",
        "ScalableDimension": "ecs:service:DesiredCount",
    }
    drive.call(
        "application-autoscaling", "RegisterScalableTarget", {**resource, "MinCapacity": 1, "MaxCapacity": 4}
    )
    tracking_policy = {
        "TargetValue": 60.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
    }
    policy = {"PolicyName": "cpu", "PolicyType": "TargetTrackingScaling"}
    drive.call(
        "application-autoscaling",
        "PutScalingPolicy",
        {**resource, **policy, "TargetTrackingScalingPolicyConfiguration": tracking_policy},
    )


SERVICES = (
    create_plain,
    create_with_service_discovery,
    create_with_service_connect,
    create_with_capacity_providers,
    create_on_ec2,
    create_with_load_balancer,
    create_with_all_fields,
    create_with_auto_scaling,
)


def create_with_codedeploy(drive: Drive) -> None:
    """Create a service whose task set CodeDeploy made."""
    group = drive.sandbox.seed()["load_balancer"]["target_groups"]["api1"]
    balancers = [{"targetGroupArn": group, "containerName": "web", "containerPort": 80}]
    create_foreign_service(drive, NAME, loadBalancers=balancers, deploymentController={"type": "CODE_DEPLOY"})


ADOPTIONS = (
    *((maker, strategy) for strategy in ("Rolling", "Canary") for maker in SERVICES),
    (create_with_strategy_of_ecs, "Native"),
)


@pytest.mark.parametrize(
    ("create_service", "strategy"), ADOPTIONS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_bad_version_leads_back_to_what_was_adopted_and_the_same_one_changes_nothing(
    drive: Drive, create_service: Maker, strategy: str
) -> None:
    create_service(drive)
    sync_cluster()
    service = adopt(NAME, strategy=strategy)
    assert list_drifts() == []
    before, scaling = drive.service(NAME), _list_scaling(drive)

    failed_execution = _run(drive, service, "crash")
    assert (failed_execution.status, failed_execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(
        failed_execution
    )[-8:]
    assert _list_changed_keys(before, drive.service(NAME)) <= _MOVES - {"taskDefinition"}
    assert _list_scaling(drive) == scaling
    assert list_drifts() == []
    assert get_state(NAME) == DriftComparison.State.IN_STEP

    new_execution = _run(drive, service)
    assert (new_execution.status, new_execution.outcome) == ("SUCCESS", "COMPLETED"), drive.log(
        new_execution
    )[-8:]
    after = drive.service(NAME)
    assert _list_changed_keys(before, after) <= _MOVES
    assert _read_definition(drive, after["taskDefinition"]) == _read_definition(
        drive, before["taskDefinition"]
    )
    assert _list_scaling(drive) == scaling
    assert list_drifts() == []
    assert DriftComparison.objects.get(ecs_service__name=NAME).execution == new_execution
    # Behind a load balancer those from before may still finish their requests.
    running_instances = ServiceInstance.objects.filter(
        ecs_service__name=NAME, stopped_at=None, desired_status="RUNNING"
    )
    assert set(running_instances.values_list("origin", "execution")) == {("EXECUTION", new_execution.pk)}
    assert running_instances.count() == after["desiredCount"]
    assert EcsServiceRecord.objects.get(name=NAME).service == service.service


def test_a_service_of_codedeploy_is_handed_to_ecs_by_the_first_good_run(drive: Drive) -> None:
    create_with_codedeploy(drive)
    sync_cluster()
    adoption = adopt(NAME)
    assert any("CODE_DEPLOY to ECS" in warning for warning in adoption.warnings)
    before = drive.service(NAME)

    failed_execution = _run(drive, adoption, "crash")
    assert failed_execution.outcome == "ROLLED_BACK", drive.log(failed_execution)[-8:]
    given_back = drive.service(NAME)
    assert given_back["deploymentController"] == before["deploymentController"] == {"type": "CODE_DEPLOY"}
    assert given_back["taskDefinition"] == before["taskDefinition"]
    assert given_back["runningCount"] == before["runningCount"]

    execution = _run(drive, adoption)
    assert execution.outcome == "COMPLETED", drive.log(execution)[-8:]
    assert drive.service(NAME)["deploymentController"] == {"type": "ECS"}
    assert list_drifts() == []
    again = _run(drive, adoption)
    assert again.outcome == "COMPLETED"
    assert f"ECS deploys Service {NAME} already" in drive.log(again)


def _run(drive: Drive, adoption: Adoption, tag: str = "") -> Execution:
    assert adoption.pipeline is not None
    drive.pipeline = adoption.pipeline
    return drive.run(tag)


def _list_changed_keys(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}


def _read_definition(drive: Drive, arn: str) -> dict[str, Any]:
    """Return the content of a revision with defaults filled in, without its ARN and number."""
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    return plain_document(TASK_DEFINITION, definition)


def _list_scaling(drive: Drive) -> list[Any]:
    """Return the scalable targets and policies of the ECS service in AWS."""
    params = {"ServiceNamespace": "ecs"}
    targets = drive.call("application-autoscaling", "DescribeScalableTargets", params)["ScalableTargets"]
    policies = drive.call("application-autoscaling", "DescribeScalingPolicies", params)["ScalingPolicies"]
    return [targets, policies]
