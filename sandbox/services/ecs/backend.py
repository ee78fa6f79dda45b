"""ECS back end of one account and region, with an index of its tasks."""

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import moto.ecs.urls
from moto.ecs.models import EC2ContainerServiceBackend, ecs_backends

from sandbox.clock import CLOCK
from sandbox.images import get_task_behavior
from sandbox.services.ecs import container_instances, network
from sandbox.services.ecs.container_instances import SandboxContainerInstance, TaskPlacement
from sandbox.services.ecs.managed_instances import capacity_providers
from sandbox.services.ecs.managed_instances.daemons import DaemonState
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask, SandboxTaskDefinition
from sandbox.services.ecs.task_definitions import TaskDefinitionRegistry

if TYPE_CHECKING:
    from sandbox.services.ecs.express_services.gateway_services import ExpressService


class TaskIndex:
    """Index of the tasks; it can be rebuilt from them at any time."""

    def __init__(self, tasks: Iterable[SandboxTask] = ()) -> None:
        self._of_service: dict[str, dict[str, SandboxTask]] = {}
        self._addresses: Counter[str] = Counter()
        for task in tasks:
            self.add(task)

    def add(self, task: SandboxTask) -> None:
        if task.service_arn is not None:
            self._of_service.setdefault(task.service_arn, {})[task.task_arn] = task
        if task.last_status != "STOPPED" and task.ip:
            self._addresses[task.ip] += 1

    def remove(self, task: SandboxTask) -> None:
        """Remove a task that is no longer listed."""
        if task.service_arn is not None:
            self._of_service.get(task.service_arn, {}).pop(task.task_arn, None)

    def free_address(self, task: SandboxTask) -> None:
        """Release the address of a stopped task."""
        self._addresses[task.ip] -= 1
        if self._addresses[task.ip] <= 0:
            del self._addresses[task.ip]

    def is_taken(self, address: str) -> bool:
        return address in self._addresses

    def of_service(self, arn: str) -> list[SandboxTask]:
        return list(self._of_service.get(arn, {}).values())


STOPPED_TASK_SECONDS = 3600.0
INACTIVE_SERVICE_SECONDS = 3600.0
PURGE_INTERVAL = 10.0


class SandboxEcs(EC2ContainerServiceBackend):
    """ECS backend: moto's clusters, capacity providers and settings; our services, tasks and definitions."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.definitions = TaskDefinitionRegistry(account_id, region_name)
        self.services: dict[str, SandboxService] = {}
        self.tasks: dict[str, dict[str, SandboxTask]] = {}
        self.tokens: dict[tuple[str, str, str], tuple[str, list[str], float]] = {}
        self.tasks_made = 0
        self.purged_at = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "index"}

    @cached_property
    def index(self) -> TaskIndex:
        """Return the index, built on first use and after loading the state."""
        return TaskIndex(self.all_tasks())

    @cached_property
    def daemons(self) -> DaemonState:
        """Return the daemons; the state of an older sandbox has none."""
        return DaemonState(self.account_id, self.region_name)

    @cached_property
    def express_services(self) -> "dict[str, ExpressService]":
        """Return the Express services by ARN; the state of an older sandbox has none."""
        return {}

    @property
    def _url_module(self) -> Any:
        # moto stores a back end's URLs in its module; ours returns moto's.
        return moto.ecs.urls

    def describe_task_definition(self, task_definition_str: str) -> SandboxTaskDefinition:
        return self.definitions.get(task_definition_str)

    def definition_of(self, task: SandboxTask) -> SandboxTaskDefinition:
        return self.definitions.get(task.task_definition_arn)

    def all_tasks(self) -> list[SandboxTask]:
        return [task for tasks in self.tasks.values() for task in tasks.values()]

    def unstopped_tasks(self) -> list[SandboxTask]:
        return [task for task in self.all_tasks() if task.last_status != "STOPPED"]

    def tasks_of(self, service: SandboxService, *, stopped: bool = False) -> list[SandboxTask]:
        """Return the tasks of a service that are not yet STOPPED, or all stored ones."""
        tasks = self.index.of_service(service.service_arn)
        return tasks if stopped else [t for t in tasks if t.last_status != "STOPPED"]

    def service_of(self, task: SandboxTask) -> SandboxService | None:
        if task.service_arn is None:
            return None
        cluster, name = task.service_arn.split("/")[-2:]
        return self.services.get(f"{cluster}:{name}")

    def list_tasks(self, *_: Any, **__: Any) -> list[SandboxTask]:
        return self.all_tasks()

    def start_service_task(
        self,
        service: SandboxService,
        deployment: SandboxDeployment,
        machine: SandboxContainerInstance | None = None,
    ) -> SandboxTask:
        """Create the next task of a service; of a DAEMON service on `machine`."""
        definition = self.definitions.get(deployment.task_definition)
        task = self.make_task(
            definition,
            cluster=service.cluster_name,
            network_configuration=deployment.network_configuration,
            group=f"service:{service.service_name}",
            placement=TaskPlacement(
                deployment.launch_type,
                deployment.platform_version,
                machine,
                deployment.capacity_provider_strategy,
            ),
            service_arn=service.service_arn,
        )
        task.started_by = deployment.id
        task.enable_execute_command = service.enable_execute_command
        task.targets = deployment.targets
        tags = {"SERVICE": service.tags, "TASK_DEFINITION": definition.tags}.get(service.propagate_tags, [])
        task.tags = [dict(tag) for tag in tags]
        if service.enable_ecs_managed_tags:
            task.tags += [
                {"key": "aws:ecs:clusterName", "value": service.cluster_name},
                {"key": "aws:ecs:serviceName", "value": service.service_name},
            ]
        return task

    def make_task(
        self,
        definition: SandboxTaskDefinition,
        *,
        cluster: str,
        network_configuration: Mapping[str, Any] | None,
        group: str,
        placement: TaskPlacement,
        service_arn: str | None = None,
    ) -> SandboxTask:
        """Create a task in PROVISIONING; a capacity provider of managed instances decides its launch type.

        Raises `PlacementFailure` if no container instance has room for it.
        """
        name = self._get_cluster(cluster).name
        prefix = f"arn:aws:ecs:{self.region_name}:{self.account_id}"
        task_id = secrets.token_hex(16)
        arn = f"{prefix}:task/{name}/{task_id}"
        behavior = get_task_behavior(definition.containers, of_service=service_arn is not None)
        task = SandboxTask(
            task_arn=arn,
            cluster_arn=f"{prefix}:cluster/{name}",
            task_definition_arn=definition.arn,
            containers=[
                _build_container(c, arn=arn, prefix=f"{prefix}:container/{name}")
                for c in definition.containers
            ],
            created_at=CLOCK.now(),
            group=group,
            launch_type=placement.launch_type,
            behavior=behavior.name,
            next_at=CLOCK.elapsed + behavior.provisioning,
            cpu=definition.document.get("cpu"),
            memory=definition.document.get("memory"),
            attributes=[{"name": "ecs.cpu-architecture", "value": "x86_64"}],
            service_arn=service_arn,
        )
        self._place_on_machine(task, definition, placement, name)
        self._place(task, network_configuration)
        if not task.attachments:
            # There is no network interface to wait for.
            task.last_status, task.next_at = "PENDING", CLOCK.elapsed + behavior.pulling
            task.pull_started_at = CLOCK.now()
        self.tasks.setdefault(name, {})[arn] = task
        self.index.add(task)
        return task

    def _place_on_machine(
        self, task: SandboxTask, definition: SandboxTaskDefinition, placement: TaskPlacement, cluster: str
    ) -> None:
        strategy, version = placement.capacity_provider_strategy, placement.platform_version
        provider = capacity_providers.choose_provider(self, cluster, strategy)
        if provider is not None:
            capacity_providers.place_task(self, task, definition, provider)
        elif placement.launch_type == "FARGATE":
            task.platform_version = "1.4.0" if version in (None, "LATEST") else version
            task.platform_family = "Linux"
            task.ephemeral_storage = definition.document.get("ephemeralStorage") or {"sizeInGiB": 20}
        elif placement.launch_type == "EC2" or placement.machine is not None:
            container_instances.place_task(self, task, definition, cluster, placement.machine)

    def _place(self, task: SandboxTask, network_configuration: Mapping[str, Any] | None) -> None:
        self.tasks_made += 1
        if not network_configuration:
            return
        task.ip, zone, attachment = network.allocate_address(
            self.account_id,
            self.region_name,
            network_configuration,
            number=self.tasks_made,
            is_taken=self.index.is_taken,
        )
        task.availability_zone = task.availability_zone or zone
        task.attachments = [attachment]
        for container in task.containers:
            container["networkInterfaces"] = [
                {"attachmentId": attachment["id"], "privateIpv4Address": task.ip}
            ]

    def purge(self) -> bool:
        """Delete expired records like AWS: stopped tasks and deleted services after an hour."""
        if CLOCK.elapsed - self.purged_at < PURGE_INTERVAL:
            return False
        self.purged_at = CLOCK.elapsed
        changed = False
        for tasks in self.tasks.values():
            for arn, task in list(tasks.items()):
                if (
                    task.stopped_since is not None
                    and CLOCK.elapsed - task.stopped_since >= STOPPED_TASK_SECONDS
                ):
                    del tasks[arn]
                    self.index.remove(task)
                    changed = True
        for key, service in list(self.services.items()):
            if (
                service.inactive_since is not None
                and CLOCK.elapsed - service.inactive_since >= INACTIVE_SERVICE_SECONDS
            ):
                del self.services[key]
                changed = True
        in_use = {t.task_definition_arn for t in self.all_tasks()}
        in_use |= {d.task_definition for s in self.services.values() for d in s.deployments}
        self.definitions.purge(in_use)
        return changed

    def count_clusters(self) -> None:
        """Update the counts of the clusters."""
        for name, cluster in self.clusters.items():
            tasks = self.tasks.get(name, {}).values()
            machines = self.container_instances.get(name, {}).values()
            cluster.registered_container_instances_count = len(machines)
            cluster.running_tasks_count = sum(t.is_running for t in tasks)
            cluster.pending_tasks_count = sum(t.last_status in ("PROVISIONING", "PENDING") for t in tasks)
            cluster.active_services_count = sum(
                s.status == "ACTIVE" and s.cluster_name == name for s in self.services.values()
            )


def _build_container(definition: Mapping[str, Any], *, arn: str, prefix: str) -> dict[str, Any]:
    task_id = arn.rpartition("/")[2]
    return {
        "containerArn": f"{prefix}/{task_id}/{secrets.token_hex(16)}",
        "taskArn": arn,
        "name": definition["name"],
        "image": definition["image"],
        "runtimeId": f"{task_id}-{secrets.randbelow(10**10):010d}",
        "lastStatus": "PENDING",
        "networkBindings": [],
        "networkInterfaces": [],
        "healthStatus": "UNKNOWN",
        "managedAgents": [],
        "cpu": str(definition.get("cpu", 0)),
        **({"memory": str(definition["memory"])} if definition.get("memory") else {}),
    }


def install_backend() -> None:
    """Install this back end in moto for every account and region."""
    ecs_backends.backend = SandboxEcs
