"""Placement of DAEMON services: one task on each active container instance that meets the constraints.

Source: ECS developer guide, Amazon ECS services, daemon scheduling strategy. AWS does not say in which order
instances get a new version; the sandbox takes them by ARN.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sandbox.services.ecs.container_instances import SandboxContainerInstance, list_active_instances
from sandbox.services.ecs.errors import InvalidEcsParameter
from sandbox.services.ecs.records import SandboxDeployment, SandboxService, SandboxTask

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

DAEMON: Final = "DAEMON"
# The configuration of a DAEMON service that names no percentages.
DEFAULT_PERCENTAGES: Final = {"maximumPercent": 100, "minimumHealthyPercent": 0}
# The part of the cluster query language that the sandbox knows.
_COMPARISON = re.compile(r"\s*attribute:(?P<name>[\w.-]+)\s*(?P<operator>==|!=|in)\s*(?P<value>.+?)\s*\Z")


@dataclass(frozen=True)
class DaemonChanges:
    """The tasks to stop, and the instances that get a task, in one step of the scheduler."""

    stopped: tuple[SandboxTask, ...]
    started_on: tuple[SandboxContainerInstance, ...]


def is_daemon(service: SandboxService) -> bool:
    return service.scheduling_strategy == DAEMON


def check_daemon(service: SandboxService) -> None:
    """Check a service as it would be. Raises InvalidParameterException."""
    if not is_daemon(service):
        return
    if service.deployment_controller.get("type", "ECS") != "ECS":
        raise InvalidEcsParameter("The daemon scheduling strategy requires the ECS deployment controller.")
    if service.launch_type == "FARGATE":
        raise InvalidEcsParameter(
            "The daemon scheduling strategy is not supported for the Fargate launch type."
        )
    if service.deployment_configuration["maximumPercent"] != DEFAULT_PERCENTAGES["maximumPercent"]:
        raise InvalidEcsParameter(
            "The maximumPercent of a service with the daemon scheduling strategy is 100."
        )
    if service.availability_zone_rebalancing == "ENABLED":
        raise InvalidEcsParameter("The daemon scheduling strategy does not support AZ rebalancing.")
    if service.placement_strategy:
        raise InvalidEcsParameter("The daemon scheduling strategy does not support placement strategies.")
    if service.volume_configurations:
        raise InvalidEcsParameter(
            "volumeConfigurations are not supported for the daemon scheduling strategy."
        )


def list_matching_instances(
    backend: "SandboxEcs", service: SandboxService, deployment: SandboxDeployment
) -> list[SandboxContainerInstance]:
    """Return the active instances that meet the constraints of the service and its task definition."""
    definition = backend.definitions.get(deployment.task_definition)
    constraints = [*service.placement_constraints, *(definition.document.get("placementConstraints") or [])]
    active = list_active_instances(backend, service.cluster_name)
    matching = [machine for machine in active if all(_meets(machine, entry) for entry in constraints)]
    return sorted(matching, key=lambda machine: machine.container_instance_arn)


def _meets(machine: SandboxContainerInstance, constraint: Mapping[str, Any]) -> bool:
    if constraint.get("type") != "memberOf":
        # One task on each instance is distinct anyway.
        return True
    comparison = _COMPARISON.match(constraint.get("expression") or "")
    if comparison is None:
        return False
    attributes = {entry["name"]: entry["value"] for entry in machine.attributes}
    value = attributes.get(comparison["name"])
    if comparison["operator"] == "in":
        return value in [entry.strip() for entry in comparison["value"].strip("[]").split(",")]
    return (value == comparison["value"]) == (comparison["operator"] == "==")


def plan_changes(
    machines: Sequence[SandboxContainerInstance],
    deployment: SandboxDeployment,
    tasks: Sequence[SandboxTask],
    *,
    serving: frozenset[str],
    percent: int,
) -> DaemonChanges:
    """Plan the next changes of a DAEMON service.

    `tasks` are its tasks that have not stopped, `serving` the ARNs of those that count as healthy, `percent`
    the minimumHealthyPercent. Tasks leave instances that no longer match; earlier versions leave as far as
    the minimum permits, and an instance gets its next task when the former one has stopped.
    """
    arns = {machine.container_instance_arn for machine in machines}
    live = [task for task in tasks if task.is_live]
    stopped = [task for task in live if task.container_instance_arn not in arns]
    remaining = [task for task in live if task.container_instance_arn in arns]
    lower = math.ceil(len(machines) * percent / 100)
    spare = max(sum(task.task_arn in serving for task in remaining) - lower, 0)
    stopped += _list_replaceable(remaining, deployment, serving, spare)
    occupied = {task.container_instance_arn for task in tasks}
    free = tuple(machine for machine in machines if machine.container_instance_arn not in occupied)
    return DaemonChanges(tuple(stopped), free)


def _list_replaceable(
    tasks: Sequence[SandboxTask], deployment: SandboxDeployment, serving: frozenset[str], spare: int
) -> Iterator[SandboxTask]:
    """Yield the tasks of earlier deployments that may stop: all without traffic, `spare` of the others."""
    former = [task for task in tasks if task.started_by != deployment.id]
    yield from (task for task in former if task.task_arn not in serving)
    healthy = [task for task in former if task.task_arn in serving]
    yield from sorted(healthy, key=lambda task: str(task.container_instance_arn))[:spare]
