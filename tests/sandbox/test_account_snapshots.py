"""An account that is filled with what another account describes answers like it."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.contract.endpoint import Aws

CLUSTER, OTHER_ACCOUNT = "demo", "210987654321"


def _describe(aws: Aws) -> dict[str, Any]:
    """What an account says of itself, as `POST /sandbox/snapshot` takes it."""
    ecs, elb, ec2 = aws.client("ecs"), aws.client("elbv2"), aws.client("ec2")
    listeners = [
        listener
        for balancer in elb.describe_load_balancers()["LoadBalancers"]
        for listener in elb.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    ]
    groups = elb.describe_target_groups()["TargetGroups"]
    for group in groups:
        found = elb.describe_target_group_attributes(TargetGroupArn=group["TargetGroupArn"])
        group["Attributes"] = found["Attributes"]
    described = ecs.describe_services(cluster=CLUSTER, services=["myapp"], include=["TAGS"])["services"]
    definitions = {ecs_service["taskDefinition"] for ecs_service in described}
    network = described[0]["networkConfiguration"]["awsvpcConfiguration"]
    (cluster,) = ecs.describe_clusters(clusters=[CLUSTER])["clusters"]
    return {
        "account": cluster["clusterArn"].split(":")[4],
        "region": "us-east-1",
        "cluster": cluster,
        "subnets": ec2.describe_subnets(SubnetIds=network["subnets"])["Subnets"],
        "securityGroups": ec2.describe_security_groups(GroupIds=network["securityGroups"])["SecurityGroups"],
        "loadBalancers": elb.describe_load_balancers()["LoadBalancers"],
        "listeners": listeners,
        "rules": [
            rule
            for listener in listeners
            for rule in elb.describe_rules(ListenerArn=listener["ListenerArn"])["Rules"]
        ],
        "targetGroups": groups,
        "taskDefinitions": [
            ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"] for arn in definitions
        ],
        "services": described,
    }


# What differs with each account, and the rules of security groups, which no task needs here.
_IGNORED = (
    "IpPermissionsEgress",
    "currentServiceDeployment",
    "currentServiceRevisions",
    "createdAt",
    "createdBy",
    "deployments",
    "events",
    "registeredAt",
    "registeredBy",
    "CreatedTime",
)


def _stable(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((_stable(item) for item in value), key=str)
    if not isinstance(value, dict):
        return value
    return {name: _stable(item) for name, item in value.items() if name not in _IGNORED}


def _create_service(aws: Aws) -> None:
    seed = aws.sandbox.seed()
    groups = seed["load_balancer"]["target_groups"]
    definition = {
        "family": "myapp",
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "containerDefinitions": [
            {"name": "web", "image": "library/nginx:crash-free", "portMappings": [{"containerPort": 80}]}
        ],
    }
    for _ in range(3):
        arn = aws.client("ecs").register_task_definition(**definition)["taskDefinition"]["taskDefinitionArn"]
    network = {"subnets": seed["subnets"], "securityGroups": [seed["security_group"]]}
    aws.client("ecs").create_service(
        cluster=CLUSTER,
        serviceName="myapp",
        taskDefinition=arn,
        desiredCount=2,
        launchType="FARGATE",
        networkConfiguration={"awsvpcConfiguration": network},
        loadBalancers=[
            {"targetGroupArn": groups["target1"], "containerName": "web", "containerPort": 80},
        ],
        tags=[{"key": "team", "value": "shop"}],
    )
    aws.sandbox.advance(120)


@pytest.fixture
def described(aws: Aws) -> Iterator[dict[str, Any]]:
    """What an account with one service says of itself; the account is as it was afterwards."""
    _create_service(aws)
    yield _describe(aws)
    aws.sandbox.reset()


def _fill(aws: Aws, document: dict[str, Any], **choices: Any) -> Any:
    wire = json.loads(json.dumps({**document, **choices}, default=str))
    return aws.sandbox.control("POST", "snapshot", wire)


def test_a_filled_account_describes_the_same_resources(aws: Aws, described: dict[str, Any]) -> None:
    assert _fill(aws, described) == {"unsteady": []}
    after = _describe(aws)
    for name in described:
        assert _stable(after[name]) == _stable(described[name]), name


def test_a_filled_account_has_the_number_of_the_other(aws: Aws, described: dict[str, Any]) -> None:
    document = json.loads(json.dumps(described, default=str).replace(described["account"], OTHER_ACCOUNT))
    _fill(aws, document)
    assert aws.client("sts").get_caller_identity()["Account"] == OTHER_ACCOUNT
    assert _describe(aws)["account"] == OTHER_ACCOUNT
    aws.sandbox.reset()
    assert aws.client("sts").get_caller_identity()["Account"] == described["account"]


def test_only_an_image_that_is_new_behaves_as_chosen(aws: Aws, described: dict[str, Any]) -> None:
    (definition,) = described["taskDefinitions"]
    # Tags have no meaning of their own here.
    definition["containerDefinitions"][0]["image"] = "library/nginx:crash"
    assert _fill(aws, described, behavior="crash") == {"unsteady": []}
    made = aws.client("ecs").register_task_definition(
        **{name: definition[name] for name in ("family", "networkMode", "cpu", "memory")},
        requiresCompatibilities=["FARGATE"],
        containerDefinitions=[
            {"name": "web", "image": "library/nginx:2", "portMappings": [{"containerPort": 80}]}
        ],
    )["taskDefinition"]
    assert made["revision"] == definition["revision"] + 1
    aws.client("ecs").update_service(
        cluster=CLUSTER, service="myapp", taskDefinition=made["taskDefinitionArn"]
    )
    aws.sandbox.advance(60)
    tasks = aws.client("ecs").list_tasks(cluster=CLUSTER, serviceName="myapp", desiredStatus="STOPPED")
    stopped = aws.client("ecs").describe_tasks(cluster=CLUSTER, tasks=tasks["taskArns"])["tasks"]
    assert {task["taskDefinitionArn"] for task in stopped} == {made["taskDefinitionArn"]}


def test_a_resource_that_cannot_be_created_is_named(aws: Aws, described: dict[str, Any]) -> None:
    del described["targetGroups"][:]
    with pytest.raises(HTTPError) as refused:
        _fill(aws, described)
    assert "services: InvalidEcsParameter" in json.load(refused.value)["error"]
