"""Container instances, and placement of EC2 tasks on them."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.services.ecs import task_lifecycle
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.records import SandboxTask, SandboxTaskDefinition, Tags

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

# CPU units and the MiB that the ECS agent registers, which are fewer than the machine has.
INSTANCE_TYPES = {
    "t3.small": (2048, 1910),
    "t3.medium": (2048, 3837),
    "m5.large": (2048, 7680),
    "m5.xlarge": (4096, 15742),
}
DEFAULT_TYPE = "m5.xlarge"
DEFAULT_COUNT = 2
# Ports of the machine itself, its agent and Docker.
RESERVED_PORTS = (22, 2375, 2376, 51678, 51679)
FIRST_DYNAMIC_PORT, LAST_DYNAMIC_PORT = 32768, 60999
# A tag of CreateCluster with which a cluster gets another number of machines; AWS gives it no meaning.
COUNT_TAG = "sandbox:container-instances"
NO_INSTANCES = "No Container Instances were found in your cluster."
REASON_TEXTS = {
    "RESOURCE:PORTS": "is already using a port required by your task",
    "RESOURCE:MEMORY": "has insufficient memory available",
    "RESOURCE:CPU": "has insufficient CPU units available",
}


@dataclass(frozen=True)
class TaskResources:
    """Resources of a machine that a task uses."""

    cpu: int
    memory: int
    ports: tuple[int, ...]


class PlacementFailure(Exception):
    """Error raised when no machine has room; `instance` is the best one, `reason` RunTask's code."""

    def __init__(self, instance: "SandboxContainerInstance | None" = None, reason: str = "") -> None:
        self.instance, self.reason = instance, reason
        super().__init__(
            f"The closest matching (container-instance {instance.id}) {REASON_TEXTS[reason]}."
            if instance is not None
            else f"Reason: {NO_INSTANCES}"
        )


@dataclass(eq=False)
class SandboxContainerInstance:
    """One machine."""

    container_instance_arn: str
    ec2_instance_id: str
    instance_type: str
    availability_zone: str
    private_ip: str
    registered_at: datetime
    status: str = "ACTIVE"
    version: int = 1
    tags: Tags = field(default_factory=list)
    # Of a managed instance.
    capacity_provider_name: str | None = None

    @property
    def id(self) -> str:
        return self.container_instance_arn.rpartition("/")[2]

    @property
    def attributes(self) -> list[dict[str, str]]:
        values = {
            "ecs.availability-zone": self.availability_zone,
            "ecs.instance-type": self.instance_type,
            "ecs.os-type": "linux",
            "ecs.cpu-architecture": "x86_64",
        }
        return [{"name": name, "value": value} for name, value in values.items()]

    def to_wire(self, tasks: Sequence[SandboxTask]) -> dict[str, Any]:
        """Return the instance in the format of DescribeContainerInstances, with these tasks."""
        cpu, memory = INSTANCE_TYPES[self.instance_type]
        return {
            "containerInstanceArn": self.container_instance_arn,
            "ec2InstanceId": self.ec2_instance_id,
            "version": self.version,
            "versionInfo": {"agentVersion": "1.89.0", "dockerVersion": "DockerVersion: 25.0.6"},
            "registeredResources": _build_resources(cpu, memory, RESERVED_PORTS),
            "remainingResources": _build_resources(*self.room(tasks)),
            "status": self.status,
            "agentConnected": True,
            "runningTasksCount": sum(t.is_running for t in tasks),
            "pendingTasksCount": sum(
                t.last_status in ("PROVISIONING", "PENDING", "ACTIVATING") for t in tasks
            ),
            "attributes": self.attributes,
            "registeredAt": self.registered_at,
            "attachments": [],
            "capacityProviderName": self.capacity_provider_name,
            "tags": self.tags,
        }

    def room(self, tasks: Sequence[SandboxTask]) -> tuple[int, int, tuple[int, ...]]:
        """Return the free CPU units and MiB, and the used ports."""
        cpu, memory = INSTANCE_TYPES[self.instance_type]
        used = [t.reserved for t in tasks if t.reserved is not None]
        ports = {*RESERVED_PORTS, *(port for need in used for port in need["ports"])}
        free = (cpu - sum(n["cpu"] for n in used), memory - sum(n["memory"] for n in used))
        return (*free, tuple(sorted(ports)))

    def lacks(self, need: TaskResources, tasks: Sequence[SandboxTask]) -> str:
        """Return the reason why a task does not fit, in the words of RunTask's failures; empty if it fits."""
        cpu, memory, ports = self.room(tasks)
        if need.cpu > cpu:
            return "RESOURCE:CPU"
        if need.memory > memory:
            return "RESOURCE:MEMORY"
        return "RESOURCE:PORTS" if {*need.ports} & {*ports} else ""


@dataclass(frozen=True)
class TaskPlacement:
    """Place of a new task: a launch type or a strategy of capacity providers; of a DAEMON task, a machine."""

    launch_type: str | None
    platform_version: str | None = None
    machine: SandboxContainerInstance | None = None
    capacity_provider_strategy: Sequence[Mapping[str, Any]] = ()


def _build_resources(cpu: int, memory: int, ports: Sequence[int]) -> list[dict[str, Any]]:
    blank = {"doubleValue": 0.0, "longValue": 0, "integerValue": 0}
    return [
        {**blank, "name": "CPU", "type": "INTEGER", "integerValue": cpu},
        {**blank, "name": "MEMORY", "type": "INTEGER", "integerValue": memory},
        {**blank, "name": "PORTS", "type": "STRINGSET", "stringSetValue": [str(p) for p in ports]},
        {**blank, "name": "PORTS_UDP", "type": "STRINGSET", "stringSetValue": []},
    ]


def add_container_instances(
    backend: "SandboxEcs",
    cluster: str,
    count: int = DEFAULT_COUNT,
    kind: str = DEFAULT_TYPE,
    *,
    capacity_provider: str | None = None,
) -> list[SandboxContainerInstance]:
    """Add machines to a cluster, alternating between two zones; managed ones with a capacity provider."""
    machines = backend.container_instances.setdefault(cluster, {})
    made = []
    for number in range(len(machines), len(machines) + count):
        arn = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:container-instance/{cluster}"
        machine = SandboxContainerInstance(
            container_instance_arn=f"{arn}/{secrets.token_hex(16)}",
            ec2_instance_id=f"i-0{secrets.token_hex(8)}",
            instance_type=kind,
            availability_zone=f"{backend.region_name}{'ab'[number % 2]}",
            private_ip=f"10.42.{192 + number // 250}.{4 + number % 250}",
            registered_at=CLOCK.now(),
            capacity_provider_name=capacity_provider,
        )
        machines[machine.id] = machine
        made.append(machine)
    _wake_services(backend, cluster)
    return made


def _wake_services(backend: "SandboxEcs", cluster: str) -> None:
    """Mark the services of a cluster for the next step: DAEMON services follow its instances."""
    for service in backend.services.values():
        if service.cluster_name == cluster:
            service.due_at = 0.0


def add_tagged_container_instances(
    backend: "SandboxEcs", cluster: str, tags: Sequence[Mapping[str, str]]
) -> None:
    """Add the initial machines of a new cluster, like the console's template with networking."""
    count = next((t.get("value") or "" for t in tags if t.get("key") == COUNT_TAG), str(DEFAULT_COUNT))
    add_container_instances(backend, cluster, int(count) if count.isdigit() else DEFAULT_COUNT)


def place_task(
    backend: "SandboxEcs",
    task: SandboxTask,
    definition: SandboxTaskDefinition,
    cluster: str,
    machine: "SandboxContainerInstance | None" = None,
) -> None:
    """Put a new task on `machine`, or on the one with the fewest tasks that has room.

    Raises `PlacementFailure`.
    """
    machines = [machine] if machine is not None else list_active_instances(backend, cluster)
    if not machines:
        raise PlacementFailure
    need = _get_task_resources(definition)
    on = {m.id: list_instance_tasks(backend, cluster, m) for m in machines}
    obstacles = {m.id: m.lacks(need, on[m.id]) for m in machines}
    fitting = [m for m in machines if not obstacles[m.id]]
    if not fitting:
        closest = max(machines, key=lambda m: list(REASON_TEXTS)[::-1].index(obstacles[m.id]))
        raise PlacementFailure(closest, obstacles[closest.id])
    chosen = min(fitting, key=lambda m: len(on[m.id]))
    _assign_instance(task, definition, chosen, used=chosen.room(on[chosen.id])[2])
    task.reserved = {"cpu": need.cpu, "memory": need.memory, "ports": _list_bound_ports(task)}


def list_active_instances(backend: "SandboxEcs", cluster: str) -> list[SandboxContainerInstance]:
    """Return the machines for new tasks of launch type EC2; those of capacity providers are for their own."""
    machines = backend.container_instances.get(cluster, {}).values()
    return [m for m in machines if m.status == "ACTIVE" and m.capacity_provider_name is None]


def _get_task_resources(definition: SandboxTaskDefinition) -> TaskResources:
    document, containers = definition.document, definition.containers
    memory = sum(int(c.get("memoryReservation") or c.get("memory") or 0) for c in containers)
    cpu = sum(int(c.get("cpu") or 0) for c in containers)
    return TaskResources(
        cpu=int(document.get("cpu") or cpu),
        memory=int(document.get("memory") or memory),
        ports=tuple(
            mapping["hostPort"] for _, mapping in _list_port_mappings(definition) if mapping.get("hostPort")
        ),
    )


def _list_port_mappings(definition: SandboxTaskDefinition) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield container name and port mapping of ports on the machine."""
    if definition.network_mode in ("bridge", "host"):
        for container in definition.containers:
            for mapping in container.get("portMappings") or []:
                yield container["name"], mapping


def _assign_instance(
    task: SandboxTask,
    definition: SandboxTaskDefinition,
    machine: SandboxContainerInstance,
    *,
    used: Sequence[int],
) -> None:
    task.container_instance_arn = machine.container_instance_arn
    task.availability_zone = machine.availability_zone
    free = (p for p in range(FIRST_DYNAMIC_PORT, LAST_DYNAMIC_PORT) if p not in used)
    bindings: dict[str, list[dict[str, Any]]] = {}
    for name, mapping in _list_port_mappings(definition):
        binding = {
            "bindIP": "0.0.0.0",  # noqa: S104 - what Docker says of a published port
            "containerPort": mapping["containerPort"],
            "hostPort": mapping.get("hostPort") or next(free),
            "protocol": mapping["protocol"],
        }
        bindings.setdefault(name, []).append(binding)
    for container in task.containers:
        container["networkBindings"] = bindings.get(container["name"], [])
    if definition.network_mode != "awsvpc":
        task.ip = machine.private_ip


def _list_bound_ports(task: SandboxTask) -> list[int]:
    return [binding["hostPort"] for c in task.containers for binding in c["networkBindings"]]


def list_instance_tasks(
    backend: "SandboxEcs", cluster: str, machine: SandboxContainerInstance
) -> list[SandboxTask]:
    """Return the tasks that use resources of a machine."""
    return [
        task
        for task in backend.tasks.get(cluster, {}).values()
        if task.container_instance_arn == machine.container_instance_arn and task.last_status != "STOPPED"
    ]


def find_container_instance(
    backend: "SandboxEcs", cluster: str, reference: str
) -> SandboxContainerInstance | None:
    machine: SandboxContainerInstance | None = backend.container_instances.get(cluster, {}).get(
        reference.rpartition("/")[2]
    )
    return machine


def describe_container_instances(
    backend: "SandboxEcs", cluster: str, references: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the machines with these ids or ARNs, and a failure for each that is missing."""
    if not references:
        raise InvalidEcsParameter("Container Instances cannot be empty.")
    machines, failures = [], []
    prefix = f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:container-instance/{cluster}"
    for reference in references:
        machine = find_container_instance(backend, cluster, reference)
        if machine is None:
            failures.append({"arn": f"{prefix}/{reference.rpartition('/')[2]}", "reason": "MISSING"})
        else:
            machines.append(machine.to_wire(list_instance_tasks(backend, cluster, machine)))
    return machines, failures


def set_instance_status(
    backend: "SandboxEcs", cluster: str, references: Sequence[str], status: str
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Set machines ACTIVE or DRAINING; a draining one accepts no new tasks, running tasks stay."""
    if status not in ("ACTIVE", "DRAINING"):
        raise InvalidEcsParameter("Container instances status should be one of [ACTIVE, DRAINING].")
    for reference in references:
        if (
            machine := find_container_instance(backend, cluster, reference)
        ) is not None and machine.status != status:
            machine.status = status
            machine.version += 1
    _wake_services(backend, cluster)
    return describe_container_instances(backend, cluster, references)


def deregister_container_instance(
    backend: "SandboxEcs", cluster: str, reference: str, *, force: bool
) -> dict[str, Any]:
    """Remove a machine from its cluster; with `force` its tasks end."""
    machine = find_container_instance(backend, cluster, reference)
    if machine is None:
        raise InvalidEcsParameter("The referenced container instance was not found.")
    tasks = list_instance_tasks(backend, cluster, machine)
    if tasks and not force:
        raise InvalidEcsParameter("Found running tasks on the instance.")
    reason = f"Host EC2 (instance {machine.ec2_instance_id}) terminated."
    for task in tasks:
        task_lifecycle.stop_task(backend, task, code="TerminationNotice", reason=reason)
    del backend.container_instances[cluster][machine.id]
    _wake_services(backend, cluster)
    return {**machine.to_wire(tasks), "status": "INACTIVE"}
