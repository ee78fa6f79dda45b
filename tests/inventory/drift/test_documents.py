"""Two documents side by side: AWS's defaults are no difference, and every field that changed is named."""

import random
from typing import Any

import pytest

from inventory.drift.documents.differences import (
    ServiceDocuments,
    find_aws_defaults,
    find_differences,
    is_sensitive_path,
    list_paths,
)
from inventory.drift.documents.field_rules import (
    ENTRY_KEYS,
    PAIR_LISTS,
    SCALABLE_TARGET,
    SCALING_POLICY,
    SERVICE_DEFINITION,
    TASK_DEFINITION,
    UNORDERED_LISTS,
)
from tests.inventory.drift.document_examples import Path, build_document, change_value, iterate_leaves

TASK = {
    "family": "myapp",
    "cpu": "256",
    "memory": "512",
    "networkMode": "awsvpc",
    "requiresCompatibilities": ["FARGATE", "EC2"],
    "containerDefinitions": [
        {
            "name": "app",
            "image": "nginx:1.27",
            "portMappings": [{"containerPort": 80}],
            "environment": [{"name": "LOG", "value": "info"}, {"name": "EMPTY", "value": ""}],
            "healthCheck": {"command": ["CMD", "true"]},
        },
        {"name": "agent", "image": "agent:1", "essential": False},
    ],
}
DESCRIBED_TASK = {
    "taskDefinitionArn": "arn:aws:ecs:us-east-1:123456789012:task-definition/myapp:3",
    "revision": 3,
    "status": "ACTIVE",
    "family": "myapp",
    "cpu": "256",
    "memory": "512",
    "networkMode": "awsvpc",
    "compatibilities": ["EC2", "FARGATE"],
    "requiresCompatibilities": ["EC2", "FARGATE"],
    "requiresAttributes": [{"name": "ecs.capability.task-eni"}],
    "registeredAt": "2026-01-01T00:00:00+00:00",
    "registeredBy": "arn:aws:iam::123456789012:root",
    "volumes": [],
    "placementConstraints": [],
    "containerDefinitions": [
        {"name": "agent", "image": "agent:1", "essential": False, "cpu": 0, "mountPoints": []},
        {
            "name": "app",
            "image": "nginx:1.27",
            "cpu": 0,
            "essential": True,
            "portMappings": [{"containerPort": 80, "hostPort": 80, "protocol": "tcp"}],
            "environment": [{"name": "EMPTY", "value": ""}, {"name": "LOG", "value": "info"}],
            "mountPoints": [],
            "volumesFrom": [],
            "systemControls": [],
            "healthCheck": {"command": ["CMD", "true"], "interval": 30, "timeout": 5, "retries": 3},
        },
    ],
}
SERVICE = {
    "serviceName": "myapp",
    "desiredCount": 2,
    "launchType": "FARGATE",
    "networkConfiguration": {"awsvpcConfiguration": {"subnets": ["subnet-b", "subnet-a"]}},
    "loadBalancers": [{"targetGroupArn": "arn:tg", "containerName": "app", "containerPort": 80}],
}
DESCRIBED_SERVICE: dict[str, Any] = {
    **SERVICE,
    "serviceArn": "arn:aws:ecs:us-east-1:123456789012:service/demo/myapp",
    "clusterArn": "arn:aws:ecs:us-east-1:123456789012:cluster/demo",
    "status": "ACTIVE",
    "runningCount": 2,
    "pendingCount": 0,
    "platformVersion": "LATEST",
    "platformFamily": "Linux",
    "roleArn": "arn:aws:iam::123456789012:role/aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS",
    "createdAt": "2026-01-01T00:00:00+00:00",
    "createdBy": "arn:aws:iam::123456789012:root",
    "deploymentController": {"type": "ECS"},
    "deploymentConfiguration": {
        "deploymentCircuitBreaker": {"enable": False, "rollback": False},
        "alarms": {"alarmNames": [], "enable": False, "rollback": False},
        "maximumPercent": 200,
        "minimumHealthyPercent": 100,
        "strategy": "ROLLING",
        "bakeTimeInMinutes": 0,
    },
    "networkConfiguration": {
        "awsvpcConfiguration": {
            "subnets": ["subnet-a", "subnet-b"],
            "securityGroups": [],
            "assignPublicIp": "DISABLED",
        }
    },
    "healthCheckGracePeriodSeconds": 0,
    "schedulingStrategy": "REPLICA",
    "enableECSManagedTags": False,
    "propagateTags": "NONE",
    "enableExecuteCommand": False,
    "availabilityZoneRebalancing": "ENABLED",
    "placementConstraints": [],
    "placementStrategy": [],
    "deployments": [],
    "events": [],
}
TARGET = {"MinCapacity": 1, "MaxCapacity": 4}
DESCRIBED_TARGET = {
    "ServiceNamespace": "ecs",
    "ResourceId": "service/demo/myapp",
    "ScalableDimension": "ecs:service:DesiredCount",
    **TARGET,
    "RoleARN": "arn:aws:iam::123456789012:role/aws-service-role/scaling",
    "SuspendedState": {"DynamicScalingInSuspended": False},
    "CreationTime": "2026-01-01T00:00:00+00:00",
}
POLICY = {
    "PolicyName": "cpu",
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": {
        "TargetValue": 60.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"},
    },
}
DESCRIBED_POLICY = {
    **POLICY,
    "PolicyARN": "arn:policy",
    "Alarms": [{"AlarmName": "a"}],
    "CreationTime": "2026",
}

DEPLOYED = ServiceDocuments(TASK, SERVICE, 2, TARGET, {"cpu": POLICY}, {"team": "shop"})
RUNNING = ServiceDocuments(
    DESCRIBED_TASK,
    DESCRIBED_SERVICE,
    2,
    DESCRIBED_TARGET,
    {"cpu": DESCRIBED_POLICY},
    {"team": "shop", "cost": "12"},
)


def list_differences(actual: ServiceDocuments, desired: ServiceDocuments = DEPLOYED) -> list[str]:
    return list_paths(find_differences(desired, actual, aws_defaults=find_aws_defaults(DEPLOYED, RUNNING)))


def test_what_aws_adds_and_its_order_are_no_difference() -> None:
    assert list_differences(RUNNING) == []


def test_a_field_that_was_changed_is_named_with_both_values() -> None:
    task = change_value(DESCRIBED_TASK, ("containerDefinitions", 1, "environment", 1, "value"))
    (difference,) = find_differences(
        DEPLOYED,
        ServiceDocuments(
            task, DESCRIBED_SERVICE, 2, DESCRIBED_TARGET, {"cpu": DESCRIBED_POLICY}, {"team": "shop"}
        ),
        aws_defaults=find_aws_defaults(DEPLOYED, RUNNING),
    )
    assert (difference.path, difference.desired, difference.actual) == (
        "containerDefinitions[app].environment[LOG]",
        "info",
        "info!",
    )
    assert is_sensitive_path(difference.path)


@pytest.mark.parametrize(
    ("changes", "expected_paths"),
    [
        ({"count": 5}, [f"{SERVICE_DEFINITION}:desiredCount"]),
        ({"count": None}, []),
        ({"tags": {"team": "other"}}, [f"{SERVICE_DEFINITION}:tags[team]"]),
        ({"tags": {}}, [f"{SERVICE_DEFINITION}:tags[team]"]),
        ({"target": None, "policies": {}}, [f"{SCALABLE_TARGET}:", f"{SCALING_POLICY}:[cpu]"]),
        ({"target": {**DESCRIBED_TARGET, "MaxCapacity": 9}}, [f"{SCALABLE_TARGET}:MaxCapacity"]),
        (
            {"target": {**DESCRIBED_TARGET, "SuspendedState": {"DynamicScalingInSuspended": True}}},
            [f"{SCALABLE_TARGET}:SuspendedState.DynamicScalingInSuspended"],
        ),
        (
            {"policies": {"cpu": DESCRIBED_POLICY, "memory": {**DESCRIBED_POLICY, "PolicyName": "memory"}}},
            [f"{SCALING_POLICY}:[memory]"],
        ),
        (
            {"service": {**DESCRIBED_SERVICE, "enableExecuteCommand": True}},
            [f"{SERVICE_DEFINITION}:enableExecuteCommand"],
        ),
        (
            {"service": {**DESCRIBED_SERVICE, "availabilityZoneRebalancing": "DISABLED"}},
            [f"{SERVICE_DEFINITION}:availabilityZoneRebalancing"],
        ),
    ],
)
def test_what_somebody_changed_outside_is_named(changes: dict[str, Any], expected_paths: list[str]) -> None:
    parts = {
        "task_definition": DESCRIBED_TASK,
        "service": DESCRIBED_SERVICE,
        "count": 2,
        "target": DESCRIBED_TARGET,
        "policies": {"cpu": DESCRIBED_POLICY},
        "tags": {"team": "shop"},
    }
    assert list_differences(ServiceDocuments(**{**parts, **changes})) == expected_paths


def test_scaling_that_no_manifest_says_is_expected_as_it_was_first_seen() -> None:
    desired = ServiceDocuments(TASK, SERVICE)
    expected = find_aws_defaults(desired, RUNNING)
    assert find_differences(desired, RUNNING, aws_defaults=expected) == ()
    bare_documents = ServiceDocuments(DESCRIBED_TASK, DESCRIBED_SERVICE)
    assert list_paths(find_differences(desired, bare_documents, aws_defaults=expected)) == [
        f"{SCALABLE_TARGET}:",
        f"{SCALING_POLICY}:[cpu]",
    ]


def _build_sized(cpu: str, memory: str) -> ServiceDocuments:
    return ServiceDocuments(task_definition={**TASK, "cpu": cpu, "memory": memory})


def test_sizes_are_the_same_however_they_are_written() -> None:
    assert (
        find_differences(_build_sized("0.5 vCPU", "2 GB"), _build_sized("512", "2048"), aws_defaults={}) == ()
    )
    assert list_paths(
        find_differences(_build_sized(".25 vCPU", "1GB"), _build_sized("512", "1024"), aws_defaults={})
    ) == [f"{TASK_DEFINITION}:cpu"]


def test_a_port_of_the_host_counts_where_containers_have_a_bridge() -> None:
    first_documents, other = (
        ServiceDocuments(
            task_definition={
                "networkMode": "bridge",
                "containerDefinitions": [{"name": "app", "portMappings": [{"containerPort": 80, **port}]}],
            }
        )
        for port in ({}, {"hostPort": 80})
    )
    assert list_paths(find_differences(first_documents, other, aws_defaults={})) == [
        f"{TASK_DEFINITION}:containerDefinitions[app].portMappings[80].hostPort"
    ]


def test_a_role_is_the_same_by_its_name_and_by_its_arn() -> None:
    name_documents, other = (
        ServiceDocuments(task_definition={**TASK, "taskRoleArn": role})
        for role in ("app", "arn:aws:iam::123456789012:role/app")
    )
    assert find_differences(name_documents, other, aws_defaults={}) == ()


KINDS = {
    TASK_DEFINITION: lambda value: ServiceDocuments(task_definition=value),
    SERVICE_DEFINITION: lambda value: ServiceDocuments(
        service=value, tags={entry["key"]: entry["value"] for entry in value["tags"]}
    ),
    SCALABLE_TARGET: lambda value: ServiceDocuments(target=value),
    SCALING_POLICY: lambda value: ServiceDocuments(policies={"cpu": value}),
}
LEAF_PATHS = [(kind, path) for kind in KINDS for path in iterate_leaves(build_document(kind))]


def _get_entry_name(path: Path) -> str:
    """Return the last named field of a path."""
    return next(part for part in reversed(path) if isinstance(part, str))


@pytest.mark.parametrize(("kind", "path"), LEAF_PATHS, ids=[f"{kind} {path}" for kind, path in LEAF_PATHS])
def test_each_field_that_botocore_knows_is_seen_when_it_changes_and_no_other(kind: str, path: Path) -> None:
    build_documents = KINDS[kind]
    before = build_document(kind)
    differences = find_differences(
        build_documents(before), build_documents(change_value(before, path)), aws_defaults={}
    )
    assert differences, "a change that nobody sees"
    parts = [part for part in path if isinstance(part, str)]
    is_name = any(
        path[-1] in names
        for part in parts
        for names in (ENTRY_KEYS.get(part, ()), PAIR_LISTS.get(part, ())[:1])
    )
    if is_name:
        # Another name is another entry: one went, one came.
        assert len(differences) <= 2
        return
    (difference,) = differences
    last_entry = (
        _get_entry_name(path[:-1])
        if path[-1] == "value" or path[-1] in ("valueFrom", "ipAddress", "condition", "Value")
        else _get_entry_name(path)
    )
    assert last_entry in difference.path or any(
        part in UNORDERED_LISTS and part in difference.path for part in parts
    ), (
        path,
        difference.path,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_named_entries_is_no_difference(kind: str) -> None:
    build_documents, before = KINDS[kind], build_document(kind)
    shuffled_document = _shuffle(before, random.Random(7))
    assert (
        find_differences(build_documents(before), build_documents(shuffled_document), aws_defaults={}) == ()
    )


def _shuffle(value: Any, generator: random.Random, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _shuffle(child, generator, name) for name, child in value.items()}
    if isinstance(value, list):
        entries = [_shuffle(entry, generator, key) for entry in value]
        if key in ENTRY_KEYS or key in PAIR_LISTS or key in UNORDERED_LISTS:
            generator.shuffle(entries)
        return entries
    return value
