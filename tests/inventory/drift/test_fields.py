"""Each field that the examples use and that can be changed is the one that is named, and no other."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from connectors.models import FileNode
from inventory.drift.documents.field_rules import SERVICE_DEFINITION, TASK_DEFINITION
from ops.demo.pipelines import SAMPLES
from tests.fixtures.engine_driver import Drive
from tests.inventory.drift.scans import list_drifts
from tests.inventory.drift.test_drift import register_revision, update_service

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


def iterate_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of a document, without names and numbers of entries."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from iterate_paths(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for entry in value:
            yield from iterate_paths(entry, path)
    else:
        yield path


def strip_names(path: str) -> str:
    """Return a path without the names of entries."""
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


def load_example(name: str) -> Any:
    return yaml.safe_load((SAMPLES / name).read_text())


def test_of_a_task_definition(drive: Drive) -> None:
    drive.run("1.27")
    own_revision = drive.service()["taskDefinition"]
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": own_revision})[
        "taskDefinition"
    ]
    (container,) = definition["containerDefinitions"]
    for task, container_changes, fields_changed in OF_TASK:
        if "logConfiguration" in container_changes:
            options = (
                container["logConfiguration"]["options"] | container_changes["logConfiguration"]["options"]
            )
            container_changes = {"logConfiguration": {"logDriver": "awslogs", "options": options}}
        update_service(
            drive, taskDefinition=register_revision(drive, task, base_arn=own_revision, **container_changes)
        )
        assert list_drifts() == sorted(f"{TASK_DEFINITION}:{field}" for field in fields_changed)
    covered_paths = {strip_names(path) for _, _, paths in OF_TASK for path in paths}
    example_paths = set(iterate_paths(load_example("RegisterTaskDefinitionRequest.yaml")))
    assert example_paths - covered_paths - FIXED_OF_TASK == set(), (
        "an example uses a field that this story does not change"
    )


def test_of_a_service_definition(drive: Drive) -> None:
    drive.run("1.27")
    deployed_service = drive.service()
    network = deployed_service["networkConfiguration"]["awsvpcConfiguration"]
    network_path = "networkConfiguration.awsvpcConfiguration"
    changes: list[tuple[dict[str, Any], str]] = [
        ({"desiredCount": 2}, "desiredCount"),
        (_build_network(network, subnets=network["subnets"][:1]), f"{network_path}.subnets"),
        (_build_network(network, securityGroups=[]), f"{network_path}.securityGroups"),
        (_build_network(network, assignPublicIp="DISABLED"), f"{network_path}.assignPublicIp"),
        (_build_percents(150, 100), "deploymentConfiguration.maximumPercent"),
        (_build_percents(200, 50), "deploymentConfiguration.minimumHealthyPercent"),
    ]
    original = {
        "desiredCount": deployed_service["desiredCount"],
        **_build_network(network),
        **_build_percents(200, 100),
    }
    for change, field in changes:
        update_service(drive, **{**original, **change})
        assert list_drifts() == [f"{SERVICE_DEFINITION}:{field}"]
    example_paths = set(iterate_paths(load_example("CreateServiceRequest.yaml")))
    assert example_paths - {name for _, name in changes} - FIXED_OF_SERVICE == set()


def _build_network(network: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {"networkConfiguration": {"awsvpcConfiguration": {**network, **changes}}}


def _build_percents(maximum: int, minimum: int) -> dict[str, Any]:
    return {"deploymentConfiguration": {"maximumPercent": maximum, "minimumHealthyPercent": minimum}}


def test_what_aws_shows_on_the_deployment_alone_is_no_drift_after_our_own(drive: Drive) -> None:
    arn = "arn:aws:vpc-lattice:us-east-1:123456789012:targetgroup/tg-0123456789abcdef0"
    lattice_target = {"roleArn": ROLE, "targetGroupArn": arn, "portName": "web"}
    node = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    node.content = yaml.safe_dump(
        {**yaml.safe_load(node.content), "vpcLatticeConfigurations": [lattice_target]}
    )
    node.save()
    drive.run("1.27")
    assert list_drifts() == []
    update_service(drive, vpcLatticeConfigurations=[])
    assert list_drifts() == [f"{SERVICE_DEFINITION}:vpcLatticeConfigurations[web:{arn}]"]
