"""Rules on the containers of a task definition."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws.validation.problems import ParameterPath, ShapeProblem, quote_value
from aws.validation.rules.common import RuleDocument, check_duplicates, check_name, is_literal, parse_units

_PORT_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}\Z")
# From the model's documentation of HealthCheck: least, most.
_HEALTH_LIMITS = {"interval": (5, 300), "timeout": (2, 60), "retries": (1, 10), "startPeriod": (0, 300)}
_USER = re.compile(r"[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?\Z")
# From the model's documentation of KernelCapabilities.
_CAPABILITY = re.compile(
    r"(ALL|AUDIT_CONTROL|AUDIT_WRITE|BLOCK_SUSPEND|CHOWN|DAC_OVERRIDE|DAC_READ_SEARCH|FOWNER|FSETID|"
    r"IPC_LOCK|IPC_OWNER|KILL|LEASE|LINUX_IMMUTABLE|MAC_ADMIN|MAC_OVERRIDE|MKNOD|NET_ADMIN|"
    r"NET_BIND_SERVICE|NET_BROADCAST|NET_RAW|SETFCAP|SETGID|SETPCAP|SETUID|SYS_ADMIN|SYS_BOOT|"
    r"SYS_CHROOT|SYS_MODULE|SYS_NICE|SYS_PACCT|SYS_PTRACE|SYS_RAWIO|SYS_RESOURCE|SYS_TIME|"
    r"SYS_TTY_CONFIG|SYSLOG|WAKE_ALARM"
    r")\Z"
)
_NON_AWSVPC_KEYS = ("hostname", "links", "extraHosts")


def validate_containers(
    definition: RuleDocument, containers: Sequence[RuleDocument]
) -> Iterator[ShapeProblem]:
    """Yield the container settings that ECS refuses on every launch type."""
    yield from check_duplicates(("containerDefinitions",), containers, "name", "container name")
    if not any(container.get("essential", True) for container in containers):
        yield ShapeProblem(("containerDefinitions",), "at least one container must be essential")
    for number, container in enumerate(containers):
        path = ("containerDefinitions", number)
        yield from _check_container(container, path)
        yield from _check_references(definition, containers, container, path)
        yield from _check_memory(definition, container, path)
        yield from _check_health_check(container.get("healthCheck") or {}, (*path, "healthCheck"))
        yield from _check_environment(container, path)
        yield from _check_network(definition.get("networkMode"), container, path)
        if container.get("secrets") and not definition.get("executionRoleArn"):
            yield ShapeProblem((*path, "secrets"), "secrets need an executionRoleArn on the task definition")
    yield from _check_ports(definition, containers)
    yield from _check_cycles(containers)


def _check_container(container: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    yield from check_name((*path, "name"), container.get("name"), "container name")
    for key in ("name", "image"):
        if not container.get(key):
            yield ShapeProblem((*path, key) if key in container else path, f'a container needs its "{key}"')
    image = container.get("image")
    if isinstance(image, str) and is_literal(image) and re.search(r"\s", image):
        yield ShapeProblem((*path, "image"), f"{quote_value(image)} is not an image: it holds spaces")
    yield from _check_security(container, path)
    options = (container.get("logConfiguration") or {}).get("options") or {}
    if (container.get("logConfiguration") or {}).get("logDriver") == "awslogs":
        for option in ("awslogs-group", "awslogs-region"):
            if option not in options:
                yield ShapeProblem(
                    (*path, "logConfiguration"), f'the driver awslogs needs the option "{option}"'
                )


def _check_security(container: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    """Yield the problems of user and kernel capabilities (R134)."""
    user = container.get("user")
    if isinstance(user, str) and is_literal(user) and not _USER.match(user):
        message = f"{quote_value(user)} is not a user: write a name or a number, and a group after a colon"
        yield ShapeProblem((*path, "user"), message)
    capabilities = (container.get("linuxParameters") or {}).get("capabilities") or {}
    for key in ("add", "drop"):
        for number, capability in enumerate(capabilities.get(key) or []):
            if is_literal(capability) and not _CAPABILITY.match(str(capability)):
                capability_path = (*path, "linuxParameters", "capabilities", key, number)
                yield ShapeProblem(
                    capability_path, f"{quote_value(capability)} is not a capability, such as NET_ADMIN"
                )


def _check_references(
    definition: RuleDocument,
    containers: Sequence[RuleDocument],
    container: RuleDocument,
    path: ParameterPath,
) -> Iterator[ShapeProblem]:
    volumes = {volume.get("name") for volume in definition.get("volumes") or []}
    for number, mount in enumerate(container.get("mountPoints") or []):
        reference_path = (*path, "mountPoints", number, "sourceVolume")
        yield from _check_reference(mount.get("sourceVolume"), volumes, reference_path, "volume")
    other_containers = {str(other.get("name")): other for other in containers if other is not container}
    for number, source in enumerate(container.get("volumesFrom") or []):
        reference_path = (*path, "volumesFrom", number, "sourceContainer")
        yield from _check_reference(
            source.get("sourceContainer"), set(other_containers), reference_path, "other container"
        )
    for number, dependency in enumerate(container.get("dependsOn") or []):
        yield from _check_dependency(dependency, other_containers, (*path, "dependsOn", number))


def _check_reference(name: object, names: set[Any], path: ParameterPath, kind: str) -> Iterator[ShapeProblem]:
    if isinstance(name, str) and is_literal(name) and name not in names:
        choices = ", ".join(sorted(map(str, names))) or "none"
        yield ShapeProblem(
            path, f"there is no {kind} {quote_value(name)} in this task definition; it has {choices}"
        )


def _check_dependency(
    dependency: RuleDocument, other_containers: Mapping[str, RuleDocument], path: ParameterPath
) -> Iterator[ShapeProblem]:
    name, condition = dependency.get("containerName"), dependency.get("condition")
    yield from _check_reference(name, set(other_containers), (*path, "containerName"), "other container")
    other = other_containers.get(str(name))
    if other is None:
        return
    if condition == "HEALTHY" and not other.get("healthCheck"):
        yield ShapeProblem(path, f"waits for {name} to be HEALTHY, but that container has no healthCheck")
    if condition in ("COMPLETE", "SUCCESS") and other.get("essential", True):
        yield ShapeProblem(path, f"waits for {name} to end, but an essential container never may")


def _check_cycles(containers: Sequence[RuleDocument]) -> Iterator[ShapeProblem]:
    dependencies_by_name = {
        str(container.get("name")): {
            str(dependencies.get("containerName")) for dependencies in container.get("dependsOn") or []
        }
        for container in containers
    }
    has_progress = True
    while has_progress:
        has_progress = bool(
            ready := [
                name
                for name, dependencies in dependencies_by_name.items()
                if not dependencies & dependencies_by_name.keys()
            ]
        )
        for name in ready:
            del dependencies_by_name[name]
    if dependencies_by_name:
        names = ", ".join(sorted(dependencies_by_name))
        yield ShapeProblem(("containerDefinitions",), f"containers depend on each other in a cycle: {names}")


def _check_memory(
    definition: RuleDocument, container: RuleDocument, path: ParameterPath
) -> Iterator[ShapeProblem]:
    hard, soft = container.get("memory"), container.get("memoryReservation")
    on_fargate = "FARGATE" in (definition.get("requiresCompatibilities") or ())
    if hard is None and soft is None and not definition.get("memory") and not on_fargate:
        yield ShapeProblem(
            path, "needs memory or memoryReservation, because the task has no memory of its own"
        )
    if isinstance(hard, int) and isinstance(soft, int) and hard < soft:
        yield ShapeProblem((*path, "memory"), f"{hard} MiB is less than the memoryReservation of {soft} MiB")
    limit = parse_units(definition.get("memory", ""))
    for key, value in (("memory", hard), ("memoryReservation", soft)):
        if isinstance(value, int) and limit is not None and value > limit:
            yield ShapeProblem((*path, key), f"{value} MiB is more than the task's memory of {limit} MiB")


def _check_health_check(check: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    command = check.get("command")
    if isinstance(command, list) and command[:1] not in (["CMD"], ["CMD-SHELL"], ["NONE"]):
        yield ShapeProblem((*path, "command"), "must start with CMD or CMD-SHELL")
    for key, (minimum, maximum) in _HEALTH_LIMITS.items():
        value = check.get(key)
        if isinstance(value, int) and not minimum <= value <= maximum:
            yield ShapeProblem((*path, key), f"is {value}; {minimum} to {maximum} allowed")


def _check_environment(container: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    yield from check_duplicates((*path, "secrets"), container.get("secrets") or [], "name", "variable")
    plain = {variable.get("name") for variable in container.get("environment") or []}
    for number, secret in enumerate(container.get("secrets") or []):
        if secret.get("name") in plain:
            secret_path = (*path, "secrets", number, "name")
            yield ShapeProblem(
                secret_path, f"{quote_value(secret.get('name'))} is also set in environment; keep one"
            )


def _check_network(mode: object, container: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    mappings = container.get("portMappings") or []
    for number, mapping in enumerate(mappings):
        mapping_path = (*path, "portMappings", number)
        yield from _check_port_mapping(mode, mapping, mapping_path)
    if mode == "none" and mappings:
        yield ShapeProblem((*path, "portMappings"), "the network mode none has no ports")
    for key in _NON_AWSVPC_KEYS:
        if mode == "awsvpc" and container.get(key):
            yield ShapeProblem((*path, key), "is not possible with the network mode awsvpc; remove it")


def _check_port_mapping(mode: object, mapping: RuleDocument, path: ParameterPath) -> Iterator[ShapeProblem]:
    container_port, host_port = mapping.get("containerPort"), mapping.get("hostPort")
    if container_port is None and not mapping.get("containerPortRange"):
        yield ShapeProblem(path, 'a port mapping needs its "containerPort"')
    for key, port, minimum in (("containerPort", container_port, 1), ("hostPort", host_port, 0)):
        if isinstance(port, int) and not minimum <= port <= 65535:
            yield ShapeProblem((*path, key), f"{port} is not a port ({minimum} to 65535)")
    if (
        mode in ("awsvpc", "host")
        and isinstance(host_port, int)
        and isinstance(container_port, int)
        and host_port != container_port
    ):
        message = (
            f"hostPort {host_port} must be equal to containerPort {container_port} with {mode}, or left out"
        )
        yield ShapeProblem((*path, "hostPort"), message)
    name = mapping.get("name")
    if isinstance(name, str) and is_literal(name) and not _PORT_NAME.match(name):
        yield ShapeProblem(
            (*path, "name"), f"{quote_value(name)}: use up to 64 lower case letters, digits, _ and -"
        )


def _check_ports(definition: RuleDocument, containers: Sequence[RuleDocument]) -> Iterator[ShapeProblem]:
    is_shared = definition.get("networkMode") in ("awsvpc", "host")
    ports: dict[tuple[Any, Any], Any] = {}
    names: set[Any] = set()
    for number, container in enumerate(containers):
        for index, mapping in enumerate(container.get("portMappings") or []):
            path = ("containerDefinitions", number, "portMappings", index)
            key = (mapping.get("containerPort"), mapping.get("protocol", "tcp"))
            if is_shared and key[0] is not None and key in ports:
                yield ShapeProblem(
                    path, f"port {key[0]}/{key[1]} is already used by {quote_value(ports[key])}"
                )
            ports.setdefault(key, container.get("name"))
            if mapping.get("name") in names:
                yield ShapeProblem(
                    (*path, "name"), f"the port name {quote_value(mapping['name'])} is used twice"
                )
            names.update({mapping["name"]} if mapping.get("name") else ())
