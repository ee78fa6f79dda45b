"""Each field that the examples use and that can be changed is the one that is named, and no other."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from connectors.models import FileNode
from inventory.drift.documents.field_rules import SERVICE_DEFINITION, TASK_DEFINITION
from ops.demo_pipelines import SAMPLES
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import drifts
from tests.inventory.drift.test_drift import register, update

ROLE: Final = "arn:aws:iam::123456789012:role/another"
Change = tuple[dict[str, Any], dict[str, Any], set[str]]
# What is put into the task definition, what into its container, and what is named of it.
OF_TASK: list[Change] = [
    ({"cpu": "512", "memory": "1024"}, {}, {"cpu", "memory"}),
    ({"family": "another"}, {}, {"family"}),
    ({"requiresCompatibilities": ["EC2", "FARGATE"]}, {}, {"requiresCompatibilities"}),
    ({"executionRoleArn": ROLE}, {}, {"executionRoleArn"}),
    ({"taskRoleArn": ROLE}, {}, {"taskRoleArn"}),
    ({}, {"name": "other"}, {"containerDefinitions[nginx]", "containerDefinitions[other]"}),
    ({}, {"image": "docker.io/library/nginx:1.26"}, {"containerDefinitions[nginx].image"}),
    ({}, {"cpu": 10}, {"containerDefinitions[nginx].cpu"}),
    ({}, {"memoryReservation": 256}, {"containerDefinitions[nginx].memoryReservation"}),
    (
        {},
        {"portMappings": [{"containerPort": 81, "hostPort": 81, "protocol": "tcp"}]},
        {"containerDefinitions[nginx].portMappings[80]", "containerDefinitions[nginx].portMappings[81]"},
    ),
    (
        {},
        {"environment": [{"name": "LOG", "value": "debug"}]},
        {"containerDefinitions[nginx].environment[LOG]"},
    ),
    (
        {"volumes": [{"name": "data"}]},
        {"mountPoints": [{"sourceVolume": "data", "containerPath": "/data"}]},
        {"volumes[data]", "containerDefinitions[nginx].mountPoints[/data]"},
    ),
    *(
        (
            {},
            {"logConfiguration": {"logDriver": "awslogs", "options": {option: "other"}}},
            {f"containerDefinitions[nginx].logConfiguration.options.{option}"},
        )
        for option in ("awslogs-group", "awslogs-region", "awslogs-stream-prefix")
    ),
]
# Fargate takes no other value, or the change needs a second container.
FIXED_OF_TASK: Final = {
    "networkMode",
    "placementConstraints",
    "containerDefinitions.essential",
    "containerDefinitions.volumesFrom",
    "containerDefinitions.logConfiguration.logDriver",
    # A port is named by its number; with awsvpc the host's is the container's.
    "containerDefinitions.portMappings.containerPort",
    "containerDefinitions.portMappings.hostPort",
    "containerDefinitions.portMappings.protocol",
    "containerDefinitions.name",
}
# AWS changes neither of an ECS service that is there.
FIXED_OF_SERVICE: Final = {"serviceName", "launchType"}


def fields(value: Any, at: str = "") -> Iterator[str]:
    """The paths of a document, without the names and numbers of entries."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from fields(inner, f"{at}.{key}" if at else key)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for one in value:
            yield from fields(one, at)
    else:
        yield at


def unnamed(path: str) -> str:
    """A path without the names of entries."""
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


def example(name: str) -> Any:
    return yaml.safe_load((SAMPLES / name).read_text())


def test_of_a_task_definition(drive: Drive) -> None:
    drive.run("1.27")
    ours = drive.service()["taskDefinition"]
    told = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": ours})["taskDefinition"]
    (container,) = told["containerDefinitions"]
    for task, of_container, named in OF_TASK:
        if "logConfiguration" in of_container:
            options = container["logConfiguration"]["options"] | of_container["logConfiguration"]["options"]
            of_container = {"logConfiguration": {"logDriver": "awslogs", "options": options}}
        update(drive, taskDefinition=register(drive, task, of=ours, **of_container))
        assert drifts() == sorted(f"{TASK_DEFINITION}:{one}" for one in named)
    seen = {unnamed(path) for _, _, named in OF_TASK for path in named}
    asked = set(fields(example("RegisterTaskDefinitionRequest.yaml")))
    assert asked - seen - FIXED_OF_TASK == set(), "an example uses a field that this story does not change"


def test_of_a_service_definition(drive: Drive) -> None:
    drive.run("1.27")
    shown = drive.service()
    network = shown["networkConfiguration"]["awsvpcConfiguration"]
    of_network = "networkConfiguration.awsvpcConfiguration"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"desiredCount": 2}, "desiredCount"),
        (_network(network, subnets=network["subnets"][:1]), f"{of_network}.subnets"),
        (_network(network, securityGroups=[]), f"{of_network}.securityGroups"),
        (_network(network, assignPublicIp="DISABLED"), f"{of_network}.assignPublicIp"),
        (_percents(150, 100), "deploymentConfiguration.maximumPercent"),
        (_percents(200, 50), "deploymentConfiguration.minimumHealthyPercent"),
    ]
    back = {"desiredCount": shown["desiredCount"], **_network(network), **_percents(200, 100)}
    for change, named in changes:
        update(drive, **{**back, **change})
        assert drifts() == [f"{SERVICE_DEFINITION}:{named}"]
    asked = set(fields(example("CreateServiceRequest.yaml")))
    assert asked - {named for _, named in changes} - FIXED_OF_SERVICE == set()


def _network(network: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {"networkConfiguration": {"awsvpcConfiguration": {**network, **changes}}}


def _percents(most: int, least: int) -> dict[str, Any]:
    return {"deploymentConfiguration": {"maximumPercent": most, "minimumHealthyPercent": least}}


def test_what_aws_shows_on_the_deployment_alone_is_no_drift_after_our_own(drive: Drive) -> None:
    arn = "arn:aws:vpc-lattice:us-east-1:123456789012:targetgroup/tg-0123456789abcdef0"
    lattice = {"roleArn": ROLE, "targetGroupArn": arn, "portName": "web"}
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    node.content = yaml.safe_dump({**yaml.safe_load(node.content), "vpcLatticeConfigurations": [lattice]})
    node.save()
    drive.run("1.27")
    assert drifts() == []
    update(drive, vpcLatticeConfigurations=[])
    assert drifts() == [f"{SERVICE_DEFINITION}:vpcLatticeConfigurations[web:{arn}]"]
