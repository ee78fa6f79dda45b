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

_ADDRESSES = ("privateIPv4Address", "privateIPv6Address")
_SERVICE_GROUP_PREFIX = "service:"


@dataclass(frozen=True)
class TargetOwners:
    """The targets of some target groups that are not on their way out.

    `owners` counts, for each group, the targets of each ECS service of the cluster, and `healthy` those that
    are healthy; `strangers` are those that no ECS service of the cluster has, in words.
    """

    owners: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    healthy: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    strangers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def count(self, service: str, groups: Sequence[str]) -> int:
        """Return how many targets of an ECS service are in these groups."""
        return sum(self.owners.get(group, {}).get(service, 0) for group in groups)

    def healthy_of(self, service: str, group: str) -> int:
        """Return how many healthy targets of an ECS service are in a group."""
        return self.healthy.get(group, {}).get(service, 0)

    def groups_of(self, service: str) -> list[str]:
        """Return the groups in which an ECS service has targets."""
        return [group for group, owners in self.owners.items() if service in owners]


def read_target_owners(
    context: StepContext, groups: Sequence[str], own: Sequence[str], *, names_others: bool = True
) -> TargetOwners:
    """Read who is in these target groups; `own` are existing ECS services that are likely to be.

    The tasks of the rest of the cluster are read only where a target belongs to none of those, and not at
    all unless `names_others`: then whoever else is there is a stranger.
    """
    targets = {group: _list_lasting_targets(context, group) for group in groups}
    tasks = _TaskIndex(context)
    if any(targets.values()):
        tasks.add(arn for name in own for arn in context.ecs.list_tasks(context.cluster, name))
    if any(tasks.owner(one) is None for found in targets.values() for one in found):
        # A task that is being stopped is registered a moment longer than it is listed as running.
        if names_others:
            tasks.add(context.ecs.list_all_tasks(context.cluster))
        tasks.add(arn for name in own for arn in context.ecs.list_tasks(context.cluster, name, "STOPPED"))
    owners = {
        group: Counter(name for one in found if (name := tasks.owner(one)))
        for group, found in targets.items()
    }
    healthy = {
        group: Counter(name for one in found if one.state == "healthy" and (name := tasks.owner(one)))
        for group, found in targets.items()
    }
    unknown = {group: [one for one in found if not tasks.owner(one)] for group, found in targets.items()}
    return TargetOwners(
        owners,
        healthy,
        {group: _reread_targets(context, group, found) for group, found in unknown.items() if found},
    )


def refuse_foreign_targets(
    context: StepContext,
    registered: TargetOwners,
    groups: Sequence[str],
    own: Sequence[str],
    consequence: str,
) -> None:
    """Raise `ActionFailed` naming an ECS service, or a target of none, that is not one of `own`."""
    for group in groups:
        for name, count in sorted(registered.owners.get(group, {}).items()):
            if name not in own:
                raise _build_foreign_service_error(name, f"has {count} targets in", group, consequence)
        for target in registered.strangers.get(group, ()):
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
    """Raise `ActionFailed` naming another ECS service of the cluster that names one of these groups.

    One that has no tasks yet has no targets either, and would get some once it is scaled up.
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


def _build_foreign_service_error(name: str, does: str, group: str, consequence: str) -> ActionFailed:
    return ActionFailed(
        "FOREIGN_SERVICE",
        f"Service {name} {does} target group {format_target_group(group)}, and it is another application. "
        f"{consequence} Give one of the two target groups of its own, or scale {name} to 0 tasks, and run "
        "the pipeline again.",
    )


def _list_lasting_targets(context: StepContext, group: str) -> list[TargetHealth]:
    return [one for one in context.elb.list_target_health(group) if one.state != "draining"]


def _reread_targets(context: StepContext, group: str, found: Sequence[TargetHealth]) -> list[str]:
    """Those targets that are there a moment later too: what was just leaving is draining by now."""
    now = {(one.id, one.port): one for one in _list_lasting_targets(context, group)}
    return [f"{one.id}:{one.port} ({one.state})" for one in found if (one.id, one.port) in now]


class _TaskIndex:
    """The ECS tasks read so far, by the addresses that targets have."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._known: set[str] = set()
        self._by_address: dict[str, str] = {}
        self._by_port: dict[tuple[str, int], str] = {}

    def add(self, arns: Iterator[str] | Sequence[str]) -> None:
        new = [arn for arn in arns if arn not in self._known]
        self._known.update(new)
        tasks = self._context.ecs.describe_tasks(self._context.cluster, new)
        machines = sorted({arn for one in tasks if (arn := one.raw.get("containerInstanceArn"))})
        ids = self._context.ecs.get_instance_ids(self._context.cluster, machines)
        for one in tasks:
            self._keep(one, ids.get(one.raw.get("containerInstanceArn", ""), ""))

    def _keep(self, task: EcsTask, machine: str) -> None:
        group = task.raw.get("group", "")
        name = group.removeprefix(_SERVICE_GROUP_PREFIX) if group.startswith(_SERVICE_GROUP_PREFIX) else ""
        for address in _list_addresses(task):
            # A task that has stopped since may have had the address before the one that has it now.
            self._by_address.setdefault(address, name)
        for container in task.raw.get("containers", ()):
            for binding in container.get("networkBindings", ()):
                self._by_port.setdefault((machine, int(binding.get("hostPort", 0))), name)

    def owner(self, target: TargetHealth) -> str | None:
        """Return the ECS service of a target; empty where its task has none, None where no task has it."""
        if target.id in self._by_address:
            return self._by_address[target.id]
        return self._by_port.get((target.id, target.port))


def _list_addresses(task: EcsTask) -> Iterator[str]:
    for attachment in task.raw.get("attachments", ()):
        for detail in attachment.get("details", ()):
            if detail.get("name") in _ADDRESSES and detail.get("value"):
                yield detail["value"]
