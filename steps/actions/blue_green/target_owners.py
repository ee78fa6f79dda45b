"""Owners of registered targets: the ECS tasks and ECS services behind a target group."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aws.apis.ecs_types import EcsTask
from aws.apis.elb import TargetHealth
from guards.limits import SCANNED_SERVICES
from steps.actions.base import ActionFailed
from steps.actions.blue_green.listener_rules import format_target_group
from steps.actions.blue_green.traffic import list_target_groups
from steps.actions.context import StepContext

_SERVICE_GROUP_PREFIX = "service:"


@dataclass(frozen=True)
class TargetOwners:
    """Owners of the targets of some target groups, without draining targets.

    `owners` counts, for each group, the targets of each ECS service of the cluster, and `healthy` the healthy
    ones; `unowned` describes targets of no ECS service of the cluster.
    """

    owners: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    healthy: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unowned: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def count(self, service: str, groups: Sequence[str]) -> int:
        """Return the number of an ECS service's targets in these groups."""
        return sum(self.owners.get(group, {}).get(service, 0) for group in groups)

    def count_healthy(self, service: str, group: str) -> int:
        """Return the number of an ECS service's healthy targets in a group."""
        return self.healthy.get(group, {}).get(service, 0)

    def list_groups(self, service: str) -> list[str]:
        """Return the groups in which an ECS service has targets."""
        return [group for group, owners in self.owners.items() if service in owners]


def read_target_owners(
    context: StepContext, groups: Sequence[str], own: Sequence[str], *, reads_cluster: bool = True
) -> TargetOwners:
    """Read the owners of the targets of these groups; `own` are existing ECS services to read first.

    The tasks of the rest of the cluster are read only if a target belongs to none of `own`, and never without
    `reads_cluster`: then other targets are unowned.
    """
    targets = {group: _list_lasting_targets(context, group) for group in groups}
    tasks = _TaskIndex(context)
    if any(targets.values()):
        tasks.add(arn for name in own for arn in context.ecs.list_tasks(context.cluster, name))
    if any(
        tasks.find_owner(target) is None for group_targets in targets.values() for target in group_targets
    ):
        # A stopping task stays registered a little longer than it is listed as running.
        if reads_cluster:
            tasks.add(context.ecs.list_all_tasks(context.cluster))
        tasks.add(arn for name in own for arn in context.ecs.list_tasks(context.cluster, name, "STOPPED"))
    owners = {
        group: Counter(name for target in group_targets if (name := tasks.find_owner(target)))
        for group, group_targets in targets.items()
    }
    healthy = {
        group: Counter(
            name
            for target in group_targets
            if target.state == "healthy" and (name := tasks.find_owner(target))
        )
        for group, group_targets in targets.items()
    }
    unknown = {
        group: [target for target in group_targets if not tasks.find_owner(target)]
        for group, group_targets in targets.items()
    }
    return TargetOwners(
        owners,
        healthy,
        {
            group: _reread_targets(context, group, group_targets)
            for group, group_targets in unknown.items()
            if group_targets
        },
    )


def refuse_foreign_targets(
    context: StepContext,
    owners: TargetOwners,
    groups: Sequence[str],
    own: Sequence[str],
    consequence: str,
) -> None:
    """Raise `ActionFailed` for a target whose ECS service is not one of `own`, or that has none."""
    for group in groups:
        for name, count in sorted(owners.owners.get(group, {}).items()):
            if name not in own:
                raise _build_foreign_service_error(name, f"has {count} targets in", group, consequence)
        for target in owners.unowned.get(group, ()):
            raise ActionFailed(
                "FOREIGN_TARGET",
                f"Target {target} is registered in target group {format_target_group(group)} and belongs "
                "to no ECS "
                f"service of cluster {context.cluster}. {consequence} Deregister it, or give this service "
                "target groups of its own, and run the pipeline again.",
            )


def refuse_foreign_services(
    context: StepContext, groups: Sequence[str], own: Sequence[str], consequence: str
) -> None:
    """Raise `ActionFailed` if another ECS service of the cluster uses one of these groups.

    A service without tasks has no targets yet, but gets some once it is scaled up.
    """
    arns = [arn for arn in context.ecs.list_services(context.cluster) if arn.rsplit("/", 1)[-1] not in own]
    if len(arns) > SCANNED_SERVICES:
        context.log(
            f"Cluster {context.cluster} has {len(arns)} more services. Slipway looked at the registered "
            "targets, and not at services that name the same target groups and have no tasks.",
            "warning",
        )
        return
    for service in context.ecs.describe_services(context.cluster, arns):
        shared_groups = [group for group in list_target_groups(service.raw) if group in groups]
        if not service.is_active or not shared_groups:
            continue
        if service.desired or service.running:
            raise _build_foreign_service_error(
                service.name,
                f"runs {service.running}/{service.desired} tasks for",
                shared_groups[0],
                consequence,
            )
        context.log(
            f"Service {service.name} names target group {format_target_group(shared_groups[0])} too. It has "
            "no tasks now; scaled up, it would receive the traffic of that group",
            "warning",
        )


def _build_foreign_service_error(name: str, predicate: str, group: str, consequence: str) -> ActionFailed:
    return ActionFailed(
        "FOREIGN_SERVICE",
        f"Service {name} {predicate} target group {format_target_group(group)}, and it is another "
        f"application. {consequence} Give one of the two target groups of its own, or scale {name} to 0 "
        "tasks, and run the pipeline again.",
    )


def _list_lasting_targets(context: StepContext, group: str) -> list[TargetHealth]:
    return [target for target in context.elb.list_target_health(group) if target.state != "draining"]


def _reread_targets(context: StepContext, group: str, targets: Sequence[TargetHealth]) -> list[str]:
    """Return the targets that still exist in a second read; the others are draining by now."""
    now = {(target.id, target.port): target for target in _list_lasting_targets(context, group)}
    return [
        f"{target.id}:{target.port} ({target.state})" for target in targets if (target.id, target.port) in now
    ]


class _TaskIndex:
    """Index of the ECS tasks read so far, by the addresses of targets."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._known: set[str] = set()
        self._by_address: dict[str, str] = {}
        self._by_port: dict[tuple[str, int], str] = {}

    def add(self, arns: Iterator[str] | Sequence[str]) -> None:
        new = [arn for arn in arns if arn not in self._known]
        self._known.update(new)
        tasks = self._context.ecs.describe_tasks(self._context.cluster, new)
        container_instances = sorted({arn for task in tasks if (arn := task.raw.get("containerInstanceArn"))})
        ids = self._context.ecs.get_instance_ids(self._context.cluster, container_instances)
        for task in tasks:
            self._add_task(task, ids.get(task.raw.get("containerInstanceArn", ""), ""))

    def _add_task(self, task: EcsTask, instance_id: str) -> None:
        group = task.raw.get("group", "")
        name = group.removeprefix(_SERVICE_GROUP_PREFIX) if group.startswith(_SERVICE_GROUP_PREFIX) else ""
        for address in task.list_addresses():
            # A stopped task may have had the address before the running one.
            self._by_address.setdefault(address, name)
        for container in task.raw.get("containers", ()):
            for binding in container.get("networkBindings", ()):
                self._by_port.setdefault((instance_id, int(binding.get("hostPort", 0))), name)

    def find_owner(self, target: TargetHealth) -> str | None:
        """Return the ECS service of a target; empty if its task has none, None if no task has it."""
        if target.id in self._by_address:
            return self._by_address[target.id]
        return self._by_port.get((target.id, target.port))
