"""What ECS refuses only when it sees the service definition and its task definition side by side."""

from collections.abc import Iterator
from typing import Any

from aws.problems import ShapeProblem, shown
from aws.rules.base import Document, is_settled
from aws.rules.launching import is_on_fargate
from aws.rules.task_definition import is_fargate
from aws.rules.volumes import EFS

# Fargate has EFS volumes since its platform 1.4.0.
WITHOUT_EFS = ("1.0.0", "1.1.0", "1.2.0", "1.3.0")


def problems(service: Document, task_definition: Document) -> Iterator[ShapeProblem]:
    """Everything in a service definition that does not go with a task definition; paths are the service's."""
    yield from _network(service, task_definition)
    yield from _launch_type(service, task_definition)
    yield from _ports(service, task_definition)
    if service.get("enableExecuteCommand") and not task_definition.get("taskRoleArn"):
        message = "ECS Exec needs a taskRoleArn on the task definition"
        yield ShapeProblem(("enableExecuteCommand",), message)
    volumes = {one.get("name") for one in task_definition.get("volumes") or []}
    yield from _overrides(service, task_definition)
    for number, volume in enumerate(service.get("volumeConfigurations") or []):
        if is_settled(volume.get("name")) and volume["name"] not in volumes:
            where = ("volumeConfigurations", number, "name")
            yield ShapeProblem(where, f"the task definition has no volume {shown(volume['name'])}")


def _overrides(request: Document, task_definition: Document) -> Iterator[ShapeProblem]:
    """RunTask may change containers, by name."""
    known = [str(one.get("name")) for one in task_definition.get("containerDefinitions") or []]
    for number, one in enumerate((request.get("overrides") or {}).get("containerOverrides") or []):
        if is_settled(one.get("name")) and one["name"] not in known:
            message = f"the task definition has no container {shown(one['name'])}; it has {', '.join(known)}"
            yield ShapeProblem(("overrides", "containerOverrides", number, "name"), message)


def _network(service: Document, task_definition: Document) -> Iterator[ShapeProblem]:
    is_awsvpc = task_definition.get("networkMode") == "awsvpc"
    if is_awsvpc and not service.get("networkConfiguration"):
        message = "the task definition's network mode awsvpc needs a networkConfiguration with subnets"
        yield ShapeProblem(("networkConfiguration",), message)
    if not is_awsvpc and service.get("networkConfiguration"):
        mode = task_definition.get("networkMode", "bridge")
        message = f"is only for the network mode awsvpc; the task definition has {mode}"
        yield ShapeProblem(("networkConfiguration",), message)


def _launch_type(service: Document, task_definition: Document) -> Iterator[ShapeProblem]:
    compatible = task_definition.get("requiresCompatibilities") or []
    launch_type = service.get("launchType")
    if is_on_fargate(service) and not is_fargate(task_definition):
        where = "launchType" if launch_type else "capacityProviderStrategy"
        message = "the task definition is not made for Fargate; add requiresCompatibilities: [FARGATE] to it"
        yield ShapeProblem((where,), message)
    elif launch_type and compatible and launch_type not in compatible:
        message = f"{launch_type} is not among the task definition's requiresCompatibilities"
        yield ShapeProblem(("launchType",), f"{message} ({', '.join(compatible)})")
    volumes = task_definition.get("volumes") or []
    if service.get("platformVersion") in WITHOUT_EFS and any(one.get(EFS) for one in volumes):
        message = "has no EFS volumes, which the task definition uses; take 1.4.0 or LATEST"
        yield ShapeProblem(("platformVersion",), message)


def _ports(service: Document, task_definition: Document) -> Iterator[ShapeProblem]:
    mapped = {
        one.get("name"): {mapping.get("containerPort") for mapping in one.get("portMappings") or []}
        for one in task_definition.get("containerDefinitions") or []
    }
    for key in ("loadBalancers", "serviceRegistries"):
        for number, one in enumerate(service.get(key) or []):
            yield from _port((key, number), one, mapped)


def _port(place: tuple[str | int, ...], one: Document, mapped: dict[Any, set[Any]]) -> Iterator[ShapeProblem]:
    name, port = one.get("containerName"), one.get("containerPort")
    if not is_settled(name):
        return
    if name not in mapped:
        listed = ", ".join(map(str, mapped)) or "none"
        message = f"the task definition has no container {shown(name)}; it has {listed}"
        yield ShapeProblem((*place, "containerName"), message)
    elif isinstance(port, int) and port not in mapped[name]:
        message = f"the container {name} maps no port {port} in the task definition"
        yield ShapeProblem((*place, "containerPort"), message)
