"""Shapes and rules: what AWS would refuse is refused before the call, at the exact place."""

import copy
from typing import Any

import pytest
from botocore.validate import ParamValidator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aws.shapes import get_input_shape
from aws.validation.parameters import validate_parameters
from aws.validation.problems import ShapeProblem
from aws.validation.rules import compatibility
from aws.validation.rules.common import parse_units
from aws.validation.rules.task_definitions import FARGATE_SIZES
from tests.lanes import examples

ROLE = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"


def container(**changes: Any) -> dict[str, Any]:
    return {"name": "web", "image": "web:1", "essential": True, **changes}


def task(*containers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    definition = {
        "family": "web",
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "executionRoleArn": ROLE,
        "containerDefinitions": list(containers) or [container()],
        **changes,
    }
    return {key: value for key, value in definition.items() if value is not None}


def build_ec2_task(*containers: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return task(
        *containers, **{"requiresCompatibilities": ["EC2"], "networkMode": "bridge", "cpu": None, **changes}
    )


def service(**changes: Any) -> dict[str, Any]:
    definition = {
        "serviceName": "web",
        "desiredCount": 2,
        "launchType": "FARGATE",
        "networkConfiguration": {
            "awsvpcConfiguration": {"subnets": ["subnet-1"], "securityGroups": ["sg-1"]}
        },
        **changes,
    }
    return {key: value for key, value in definition.items() if value is not None}


def daemon(**changes: Any) -> dict[str, Any]:
    on_each_instance = {"launchType": "EC2", "schedulingStrategy": "DAEMON", "desiredCount": None}
    return service(**{**on_each_instance, "networkConfiguration": None, **changes})


def validate_task(definition: dict[str, Any]) -> list[ShapeProblem]:
    return validate_parameters("ecs", "RegisterTaskDefinition", definition)


def validate_service(definition: dict[str, Any]) -> list[ShapeProblem]:
    return validate_parameters("ecs", "CreateService", definition)


def test_sound_definitions_have_no_problems() -> None:
    assert validate_task(task()) == []
    assert validate_task(build_ec2_task()) == []
    assert validate_service(service()) == []


@pytest.mark.parametrize(
    ("definition", "place", "message"),
    [
        (task(netwrkMode="awsvpc"), "netwrkMode", 'did you mean "networkMode"'),
        (
            task(container(portMapings=[])),
            "containerDefinitions[0].portMapings",
            'did you mean "portMappings"',
        ),
        (task(cpu=256), "cpu", 'put it in quotes: "256"'),
        (task(container(memory="512")), "containerDefinitions[0].memory", "without quotes"),
        (task(container(environment={"A": "1"})), "containerDefinitions[0].environment", "must be a list"),
        (task(container(essential="yes")), "containerDefinitions[0].essential", "true or false"),
        (task(container(cpu=True)), "containerDefinitions[0].cpu", "whole number"),
        (
            task(container(logConfiguration={})),
            "containerDefinitions[0].logConfiguration",
            '"logDriver" is missing',
        ),
        (task(networkMode="AWSVPC"), "networkMode", "did you mean 'awsvpc'"),
        (task(networkMode="bogus"), "networkMode", "is not one of bridge, host, awsvpc, none"),
        (task(requiresCompatibilities=["MOON"]), "requiresCompatibilities[0]", "is not one of"),
        (task(tags=[{"key": f"k{n}", "value": ""} for n in range(51)]), "tags", "at most 50"),
        (task(container(**{"name": None})), "containerDefinitions[0].name", "must be text"),
    ],
)
def test_shapes_are_checked_at_their_place(definition: dict[str, Any], place: str, message: str) -> None:
    (problem,) = [problem for problem in validate_task(definition) if not problem.is_warning]
    assert problem.location == place
    assert message in problem.message


def test_a_new_choice_of_aws_is_only_a_warning() -> None:
    (problem,) = validate_task(task(runtimePlatform={"operatingSystemFamily": "PLAN9"}))
    assert problem.is_warning
    assert problem.location == "runtimePlatform.operatingSystemFamily"


@pytest.mark.parametrize(
    ("definition", "place", "message"),
    [
        (task(cpu="256", memory="4096"), "memory", "use 512, 1024, 2048"),
        (task(cpu="8192", memory="20000"), "memory", "16384 to 61440 in steps of 4096"),
        (task(cpu="300"), "cpu", "no tasks with 300 CPU units"),
        (task(cpu="32768", memory="65536"), "cpu", "no tasks with 32768"),
        (task(cpu=None), "cpu", 'needs "cpu"'),
        (task(memory=None), "memory", 'needs "memory"'),
        (task(cpu="lots"), "cpu", "is not a size"),
        (task(networkMode="bridge"), "networkMode", "Fargate needs networkMode: awsvpc"),
        (task(networkMode=None), "requiresCompatibilities", "Fargate needs networkMode: awsvpc"),
        (task(ipcMode="host"), "ipcMode", "not possible on Fargate"),
        (task(pidMode="host"), "pidMode", "pidMode: task"),
        (task(placementConstraints=[{"type": "memberOf"}]), "placementConstraints", "not possible"),
        (task(ephemeralStorage={"sizeInGiB": 20}), "ephemeralStorage.sizeInGiB", "21 to 200"),
        (
            task(volumes=[{"name": "v", "host": {"sourcePath": "/x"}}]),
            "volumes[0].host.sourcePath",
            "no host",
        ),
        (task(container(privileged=True)), "containerDefinitions[0].privileged", "not possible"),
        (task(container(stopTimeout=121)), "containerDefinitions[0].stopTimeout", "120 s at most"),
        (
            task(container(linuxParameters={"capabilities": {"add": ["SYS_PTRACE", "NET_ADMIN"]}})),
            "containerDefinitions[0].linuxParameters.capabilities.add",
            "not NET_ADMIN",
        ),
        (
            task(container(logConfiguration={"logDriver": "journald"})),
            "containerDefinitions[0].logConfiguration.logDriver",
            "no log driver journald",
        ),
        (
            task(
                container(image="123456789012.dkr.ecr.us-east-1.amazonaws.com/web:1"), executionRoleArn=None
            ),
            "containerDefinitions[0].image",
            "to pull from ECR",
        ),
        (
            task(container(cpu=200), container(name="b", cpu=100)),
            "containerDefinitions",
            "300 CPU units together",
        ),
        (
            task(container(memoryReservation=300), container(name="b", memoryReservation=300)),
            "containerDefinitions",
            "reserve 600 MiB together",
        ),
        (task(family="a b"), "family", "not a family name"),
        (task(executionRoleArn="<Role ARN>"), "executionRoleArn", "placeholder <Role ARN>"),
        (task(containerDefinitions=[]), "containerDefinitions", "at least one container"),
        (task(container(name="a.b")), "containerDefinitions[0].name", "not a container name"),
        (task({"name": "web"}), "containerDefinitions[0]", 'needs its "image"'),
        (task(container(image="web: 1")), "containerDefinitions[0].image", "spaces"),
        (task(container(), container()), "containerDefinitions[1].name", "already used"),
        (task(container(essential=False)), "containerDefinitions", "must be essential"),
        (
            task(container(mountPoints=[{"sourceVolume": "v", "containerPath": "/v"}])),
            "containerDefinitions[0].mountPoints[0].sourceVolume",
            "no volume 'v'",
        ),
        (
            task(container(volumesFrom=[{"sourceContainer": "x"}])),
            "containerDefinitions[0].volumesFrom[0].sourceContainer",
            "no other container 'x'",
        ),
        (
            task(container(dependsOn=[{"containerName": "x", "condition": "START"}])),
            "containerDefinitions[0].dependsOn[0].containerName",
            "no other container 'x'",
        ),
        (
            task(container(dependsOn=[{"containerName": "b", "condition": "HEALTHY"}]), container(name="b")),
            "containerDefinitions[0].dependsOn[0]",
            "has no healthCheck",
        ),
        (
            task(container(dependsOn=[{"containerName": "b", "condition": "SUCCESS"}]), container(name="b")),
            "containerDefinitions[0].dependsOn[0]",
            "essential container never may",
        ),
        (
            task(
                container(dependsOn=[{"containerName": "b", "condition": "START"}]),
                container(name="b", dependsOn=[{"containerName": "web", "condition": "START"}]),
            ),
            "containerDefinitions",
            "in a cycle: b, web",
        ),
        (
            task(container(memory=100, memoryReservation=200)),
            "containerDefinitions[0].memory",
            "less than the memoryReservation",
        ),
        (task(container(memory=1024)), "containerDefinitions[0].memory", "more than the task's memory"),
        (build_ec2_task(memory=None), "containerDefinitions[0]", "needs memory or memoryReservation"),
        (
            task(container(portMappings=[{"containerPort": 80, "hostPort": 8080}])),
            "containerDefinitions[0].portMappings[0].hostPort",
            "must be equal to containerPort",
        ),
        (
            task(container(portMappings=[{"containerPort": 80}, {"containerPort": 80}])),
            "containerDefinitions[0].portMappings[1]",
            "already used by 'web'",
        ),
        (
            task(container(portMappings=[{"containerPort": 70000}])),
            "containerDefinitions[0].portMappings[0].containerPort",
            "not a port",
        ),
        (task(container(hostname="h")), "containerDefinitions[0].hostname", "awsvpc; remove it"),
        (
            task(container(secrets=[{"name": "A", "valueFrom": "x"}]), executionRoleArn=None),
            "containerDefinitions[0].secrets",
            "need an executionRoleArn",
        ),
        (
            task(
                container(
                    secrets=[{"name": "A", "valueFrom": "x"}], environment=[{"name": "A", "value": "1"}]
                )
            ),
            "containerDefinitions[0].secrets[0].name",
            "also set in environment",
        ),
        (
            task(container(healthCheck={"command": ["curl"]})),
            "containerDefinitions[0].healthCheck.command",
            "CMD",
        ),
        (
            task(container(healthCheck={"command": ["CMD", "x"], "interval": 1})),
            "containerDefinitions[0].healthCheck.interval",
            "5 to 300",
        ),
        (task(tags=[{"key": "aws:x", "value": "1"}]), "tags[0].key", "aws:"),
    ],
)
def test_rules_of_task_definitions(definition: dict[str, Any], place: str, message: str) -> None:
    problems = [problem for problem in validate_task(definition) if problem.location == place]
    assert problems, validate_task(definition)
    assert message in problems[0].message
    assert len(validate_task(definition)) == 1, validate_task(definition)


def test_awslogs_on_fargate_needs_its_options_and_a_role() -> None:
    definition = task(container(logConfiguration={"logDriver": "awslogs"}), executionRoleArn=None)
    messages = " ".join(problem.message for problem in validate_task(definition))
    for part in ("awslogs-group", "awslogs-region", "awslogs-stream-prefix", "executionRoleArn"):
        assert part in messages


@pytest.mark.parametrize(
    ("cpu", "memory"), [(cpu, memory) for cpu in FARGATE_SIZES for memory in FARGATE_SIZES[cpu]]
)
def test_every_fargate_size_is_accepted_in_every_spelling(cpu: int, memory: int) -> None:
    assert validate_task(task(cpu=str(cpu), memory=str(memory))) == []
    assert validate_task(task(cpu=f"{cpu / 1024:g} vCPU", memory=f"{memory / 1024:g} GB")) == []


def test_fargate_has_seventy_four_sizes() -> None:
    assert sum(len(sizes) for sizes in FARGATE_SIZES.values()) == 74


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 vCPU", 1024),
        (".5 vcpu", 512),
        (". vcpu", None),
        ("0.25vCPU", 256),
        ("1GB", 1024),
        ("x", None),
        ("", None),
    ],
)
def test_sizes_are_read_as_aws_writes_them(text: str, size: int | None) -> None:
    assert parse_units(text) == size


_MAXIMUM = "deploymentConfiguration.maximumPercent"


def balancer(**changes: Any) -> dict[str, Any]:
    arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/web/0123456789abcdef"
    entry = {"targetGroupArn": arn, "containerName": "web", "containerPort": 80, **changes}
    return {key: value for key, value in entry.items() if value is not None}


def vpc(**changes: Any) -> dict[str, Any]:
    return {"awsvpcConfiguration": {"subnets": ["subnet-1"], **changes}}


@pytest.mark.parametrize(
    ("definition", "place", "message"),
    [
        (service(serviceName="my app"), "serviceName", "not a service name"),
        (
            service(capacityProviderStrategy=[{"capacityProvider": "x"}]),
            "capacityProviderStrategy",
            "not both",
        ),
        (service(placementStrategy=[{"type": "random"}]), "placementStrategy", "not possible on Fargate"),
        (service(networkConfiguration=None), "networkConfiguration", "Fargate needs"),
        (
            service(networkConfiguration=vpc(subnets=[])),
            "networkConfiguration.awsvpcConfiguration.subnets",
            "one",
        ),
        (
            service(networkConfiguration=vpc(subnets=["subnet-1"] * 17)),
            "networkConfiguration.awsvpcConfiguration.subnets",
            "at most 16",
        ),
        (
            service(networkConfiguration=vpc(subnets=["<Subnet Id>"])),
            "networkConfiguration.awsvpcConfiguration.subnets[0]",
            "placeholder",
        ),
        (
            service(networkConfiguration=vpc(securityGroups=["default"])),
            "networkConfiguration.awsvpcConfiguration.securityGroups[0]",
            "begin with sg-",
        ),
        (service(loadBalancers=[balancer(containerPort=None)]), "loadBalancers[0]", '"containerPort"'),
        (
            service(loadBalancers=[balancer(targetGroupArn="tg")]),
            "loadBalancers[0].targetGroupArn",
            "not the ARN",
        ),
        (
            service(loadBalancers=[balancer(targetGroupArn=None)]),
            "loadBalancers[0]",
            "needs a targetGroupArn",
        ),
        (service(desiredCount=-1), "desiredCount", "negative"),
        (service(schedulingStrategy="DAEMON", desiredCount=None), "schedulingStrategy", "not for Fargate"),
        (daemon(deploymentConfiguration={"maximumPercent": 200}), _MAXIMUM, "has to be 100"),
        (daemon(placementStrategy=[{"type": "random"}]), "placementStrategy", "not possible"),
        (daemon(desiredCount=1), "desiredCount", "no desired count"),
        (
            service(deploymentConfiguration={"maximumPercent": 100, "minimumHealthyPercent": 100}),
            "deploymentConfiguration",
            "neither stop an old task nor start a new one",
        ),
        (service(launchType="EC2", platformVersion="1.4.0"), "platformVersion", "only for Fargate"),
    ],
)
def test_rules_of_service_definitions(definition: dict[str, Any], place: str, message: str) -> None:
    (problem,) = [problem for problem in validate_service(definition) if not problem.is_warning]
    assert problem.location == place
    assert message in problem.message


@pytest.mark.parametrize(
    ("count", "least", "most", "stuck"),
    [(1, 100, 150, True), (1, 50, 100, True), (2, 50, 100, False), (3, 100, 133, True), (3, 100, 134, False)],
)
def test_rounding_that_leaves_no_room_is_warned_of(count: int, least: int, most: int, stuck: bool) -> None:
    percents = {"minimumHealthyPercent": least, "maximumPercent": most}
    problems = validate_service(service(desiredCount=count, deploymentConfiguration=percents))
    assert [problem.is_warning for problem in problems] == ([True] if stuck else [])


def test_a_missing_count_is_a_warning_because_an_update_keeps_it() -> None:
    (problem,) = validate_service(service(desiredCount=None))
    assert problem.is_warning


SCALING = {
    "ServiceNamespace": "ecs",
    "ScalableDimension": "ecs:service:DesiredCount",
    "ResourceId": "service/c/s",
}


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"MinCapacity": 3, "MaxCapacity": 1}, "MinCapacity", "more than the MaxCapacity"),
        ({"MinCapacity": "1", "MaxCapacity": 1}, "MinCapacity", "whole number"),
        ({"MinCapacity": 1}, "", "MaxCapacity"),
        ({"MinCapacity": 1, "MaxCapacity": 1, "ScalableDimension": "ecs:bogus"}, "ScalableDimension", ""),
        ({"MinCapacity": 1, "MaxCapacity": 1, "ResourceId": "web"}, "ResourceId", "service/CLUSTER/SERVICE"),
    ],
)
def test_rules_of_scalable_targets(changes: dict[str, Any], place: str, message: str) -> None:
    (problem,) = validate_parameters(
        "application-autoscaling", "RegisterScalableTarget", {**SCALING, **changes}
    )
    assert problem.location == place
    assert message in problem.message


def test_a_policy_needs_the_configuration_of_its_type() -> None:
    policy = {**SCALING, "PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    (problem,) = validate_parameters("application-autoscaling", "PutScalingPolicy", policy)
    assert "needs TargetTrackingScalingPolicyConfiguration" in problem.message


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"networkConfiguration": None, "launchType": None}, "networkConfiguration", "awsvpc needs"),
        ({"launchType": "EC2"}, "launchType", "not among"),
        ({"loadBalancers": [balancer(containerName="db")]}, "loadBalancers[0].containerName", "it has web"),
        ({"loadBalancers": [balancer(containerPort=81)]}, "loadBalancers[0].containerPort", "no port 81"),
        ({"enableExecuteCommand": True}, "enableExecuteCommand", "taskRoleArn"),
    ],
)
def test_a_service_must_go_with_its_task_definition(
    changes: dict[str, Any], place: str, message: str
) -> None:
    definition = task(container(portMappings=[{"containerPort": 80}]))
    (problem,) = compatibility.validate_compatibility(service(**changes), definition)
    assert problem.location == place
    assert message in problem.message


def test_expressions_are_right_until_they_are_filled_in() -> None:
    definition = task(
        container(image="<+artifact.image>", memory="<+input>"), cpu="<+cpu>", networkMode="<+m>"
    )
    assert validate_task(definition) == []
    assert validate_service(service(desiredCount="<+count>", networkConfiguration="<+net>")) == []


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        below = [subpath for key in value for subpath in _paths(value[key], (*path, key))]
    elif isinstance(value, list):
        below = [subpath for index, item in enumerate(value) for subpath in _paths(item, (*path, index))]
    return ([path] if path else []) + below


WHOLE = task(
    container(
        portMappings=[{"containerPort": 80, "name": "http"}],
        environment=[{"name": "A", "value": "1"}],
        secrets=[{"name": "S", "valueFrom": "arn"}],
        mountPoints=[{"sourceVolume": "v", "containerPath": "/v"}],
        healthCheck={"command": ["CMD", "true"]},
        dependsOn=[{"containerName": "b", "condition": "START"}],
        logConfiguration={"logDriver": "splunk", "options": {"a": "b"}},
        linuxParameters={"capabilities": {"add": ["SYS_PTRACE"]}},
        resourceRequirements=[{"type": "GPU", "value": "1"}],
    ),
    container(name="b"),
    volumes=[{"name": "v", "host": {}}],
    tags=[{"key": "k", "value": "v"}],
)


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(_paths(WHOLE)), junk)
def test_nothing_that_botocore_refuses_gets_through_and_no_junk_breaks_a_rule(
    path: tuple[Any, ...], value: Any
) -> None:
    definition = copy.deepcopy(WHOLE)
    inner = definition
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    problems = validate_task(definition)
    report = ParamValidator().validate(definition, get_input_shape("ecs", "RegisterTaskDefinition"))
    if report.has_errors():
        assert any(not problem.is_warning for problem in problems), report.generate_report()
