"""Capacity providers of managed instances, and the instances that they add for tasks.

Sources: ECS API, CreateCapacityProvider and DescribeCapacityProviders; ECS developer guide, Amazon ECS
Managed Instances. AWS removes an instance some time after its last task; here it stays.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sandbox.services.ecs import container_instances
from sandbox.services.ecs.container_instances import PlacementFailure, SandboxContainerInstance
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.records import SandboxTask, SandboxTaskDefinition, Tags

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

MANAGED_INSTANCES: Final = "MANAGED_INSTANCES"
_RESERVED_PREFIXES: Final = ("aws", "ecs", "fargate")


@dataclass(eq=False)
class ManagedCapacityProvider:
    """One capacity provider of managed instances, under the names of DescribeCapacityProviders."""

    capacity_provider_arn: str
    name: str
    cluster: str
    managed_instances_provider: dict[str, Any]
    type: str = MANAGED_INSTANCES
    status: str = "ACTIVE"
    update_status: str = "CREATE_COMPLETE"
    tags: Tags = field(default_factory=list)


def create_capacity_provider(backend: "SandboxEcs", params: Mapping[str, Any]) -> ManagedCapacityProvider:
    """Create a capacity provider of managed instances in its cluster. Raises the error of AWS."""
    name = params["name"]
    if name.lower().startswith(_RESERVED_PREFIXES):
        raise InvalidEcsParameter("The capacity provider name can't start with aws, ecs or fargate.")
    if not params.get("cluster"):
        raise InvalidEcsParameter("A capacity provider of managed instances requires a cluster.")
    if name in backend.capacity_providers:
        raise InvalidEcsParameter(f"The capacity provider {name} already exists.")
    cluster = backend._get_cluster(params["cluster"])
    provider = ManagedCapacityProvider(
        f"arn:aws:ecs:{backend.region_name}:{backend.account_id}:capacity-provider/{name}",
        name,
        cluster.name,
        copy.deepcopy(params["managedInstancesProvider"]),
        tags=copy.deepcopy(params.get("tags") or []),
    )
    backend.capacity_providers[name] = provider
    return provider


def list_cluster_providers(backend: "SandboxEcs", cluster: str) -> list[Any]:
    """Return the capacity providers of a cluster; those of managed instances belong to it by creation."""
    named = backend._get_cluster(cluster).capacity_providers or []
    return [
        provider
        for provider in backend.capacity_providers.values()
        if provider.name in named or getattr(provider, "cluster", None) == cluster
    ]


def find_provider(backend: "SandboxEcs", cluster: str, reference: str) -> ManagedCapacityProvider | None:
    """Return the capacity provider of managed instances with a name or ARN, if the cluster has it."""
    provider = backend.capacity_providers.get(reference.rpartition("/")[2])
    is_here = isinstance(provider, ManagedCapacityProvider) and provider.cluster == cluster
    return provider if is_here else None


def choose_provider(
    backend: "SandboxEcs", cluster: str, strategy: Sequence[Mapping[str, Any]] | None
) -> ManagedCapacityProvider | None:
    """Return the first capacity provider of managed instances in a strategy."""
    named = (find_provider(backend, cluster, entry["capacityProvider"]) for entry in strategy or ())
    return next((provider for provider in named if provider is not None), None)


def list_provider_instances(
    backend: "SandboxEcs", provider: ManagedCapacityProvider
) -> list[SandboxContainerInstance]:
    """Return the active instances of a capacity provider."""
    machines = backend.container_instances.get(provider.cluster, {}).values()
    return [m for m in machines if m.capacity_provider_name == provider.name and m.status == "ACTIVE"]


def place_task(
    backend: "SandboxEcs",
    task: SandboxTask,
    definition: SandboxTaskDefinition,
    provider: ManagedCapacityProvider,
) -> None:
    """Put a new task on an instance of its capacity provider, which adds one if none has room."""
    task.launch_type, task.capacity_provider_name = MANAGED_INSTANCES, provider.name
    for machine in list_provider_instances(backend, provider):
        try:
            container_instances.place_task(backend, task, definition, provider.cluster, machine)
        except PlacementFailure:
            continue
        return
    (machine,) = container_instances.add_container_instances(
        backend, provider.cluster, 1, capacity_provider=provider.name
    )
    container_instances.place_task(backend, task, definition, provider.cluster, machine)
