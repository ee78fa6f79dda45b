"""Target groups of a dashboard: unhealthy targets, their ECS tasks and hints."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync import column_values

# By reason code (TargetHealth.Reason).
_REASON_HINTS: Final[Mapping[str, str]] = {
    "Elb.RegistrationInProgress": "Wait until the load balancer has registered the target.",
    "Elb.InitialHealthChecking": (
        "Wait for the first health checks. If they take long, compare the health check grace period "
        "with the start time of the application."
    ),
    "Elb.InternalError": (
        "Check the AWS Health Dashboard for this region. The target did not cause the error."
    ),
    "Target.ResponseCodeMismatch": (
        "Check the task log. Compare the health check path and success codes with the responses of the "
        "application."
    ),
    "Target.Timeout": (
        "Allow the load balancer in the security group of the tasks on this port. Check that the application "
        "responds before the health check times out."
    ),
    "Target.FailedHealthChecks": (
        "Check that the application listens on 0.0.0.0 and this port. Allow the load balancer in the "
        "security group of the tasks."
    ),
    "Target.NotInUse": (
        "Add a listener or rule that forwards to this target group. Without one, targets are not checked."
    ),
    "Target.NotRegistered": "No action needed if the task has stopped. Otherwise deploy again.",
    "Target.InvalidState": "No action needed: the instance has stopped.",
    "Target.IpUnusable": "The IP address is in use by a load balancer. Use other subnets for the tasks.",
    "Target.HealthCheckDisabled": "Enable health checks for the target group.",
    "Target.DeregistrationInProgress": (
        "No action needed: open requests complete within the deregistration delay of the target group."
    ),
}
# By state, for missing and new reason codes.
_STATE_HINTS: Final[Mapping[str, str]] = {
    "unhealthy": "Check the task log and the health check of the target group.",
    "unavailable": (
        "Check the health check of the target group, and the AWS Health Dashboard for this region."
    ),
    "unused": _REASON_HINTS["Target.NotInUse"],
    "draining": _REASON_HINTS["Target.DeregistrationInProgress"],
    "initial": _REASON_HINTS["Elb.RegistrationInProgress"],
}
# The badge of each state.
_STATE_BADGES: Final[Mapping[str, str]] = {
    "healthy": "HEALTHY",
    "initial": "PENDING",
    "draining": "DRAINING",
    "unused": "UNUSED",
}
UNHEALTHY_STATES: Final = ("unhealthy", "unavailable")
_STATE_ORDER: Final = (
    "unhealthy",
    "unhealthy.draining",
    "unavailable",
    "unused",
    "initial",
    "draining",
    "healthy",
)


@dataclass(frozen=True)
class DashboardTarget:
    """A target without traffic; `task` is the id of its ECS task, if known."""

    target: str
    port: int | None
    zone: str
    state: str
    reason: str
    description: str
    task: str

    @property
    def is_unhealthy(self) -> bool:
        """Return whether the target should receive traffic but does not."""
        return self.state.startswith(UNHEALTHY_STATES)

    @property
    def badge(self) -> str:
        """Return the badge of its state."""
        return _get_state_badge(self.state)

    @property
    def hint(self) -> str:
        """Return the next step for the reader."""
        reason_hint = _REASON_HINTS.get(self.reason)
        return reason_hint or _STATE_HINTS.get(self.state.partition(".")[0], _STATE_HINTS["unhealthy"])


@dataclass(frozen=True)
class DashboardTargetGroup:
    """A target group as last read: counts by state, and some targets that are not healthy."""

    arn: str
    name: str
    is_missing: bool
    counts: Mapping[str, int]
    targets: tuple[DashboardTarget, ...]
    read_at: datetime | None

    @property
    def state_counts(self) -> list[tuple[str, str, int]]:
        """Return the badge, name and count of each state, the worst first."""
        return [(_get_state_badge(state), state, count) for state, count in self.counts.items()]

    @property
    def targets_total(self) -> int:
        return sum(count for state, count in self.counts.items() if state != "healthy")

    @property
    def unhealthy_total(self) -> int:
        return sum(count for state, count in self.counts.items() if state.startswith(UNHEALTHY_STATES))


def build_target_group(arn: str, entry: Mapping[str, Any], tasks: Mapping[str, str]) -> DashboardTargetGroup:
    """Build a target group from the entry of sync; `tasks` maps targets to task ids."""
    counts = entry.get("counts", {})
    states = sorted(counts, key=lambda state: (_get_state_rank(state), state))
    targets = [_build_target(target, tasks) for target in _list_unhealthy(entry)]
    return DashboardTargetGroup(
        arn=arn,
        name=str(entry.get("name") or arn.split("/")[1]),
        is_missing=bool(entry.get("is_missing")),
        counts={state: counts[state] for state in states},
        targets=tuple(sorted(targets, key=lambda target: (_get_state_rank(target.state), target.target))),
        read_at=column_values.parse_datetime(entry.get("read_at")),
    )


def _get_state_badge(state: str) -> str:
    return _STATE_BADGES.get(state, "UNHEALTHY")


def _get_state_rank(state: str) -> int:
    return _STATE_ORDER.index(state) if state in _STATE_ORDER else 0


def _build_target(entry: Mapping[str, Any], tasks: Mapping[str, str]) -> DashboardTarget:
    names = ("target", "zone", "state", "reason", "description")
    texts = {name: str(entry.get(name) or "") for name in names}
    return DashboardTarget(port=entry.get("port"), task=tasks.get(texts["target"], ""), **texts)


def _list_unhealthy(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*entry.get("unhealthy", ()), *entry.get("others", ())]


def get_target_tasks(ecs_services: Iterable[EcsServiceRecord]) -> dict[int, dict[str, str]]:
    """Return task ids by service and target that is not healthy; no query if all are healthy.

    A target is an IP address or an EC2 instance; an instance with several tasks stays unassigned.
    """
    targets_by_key = {
        ecs_service.pk: {
            str(target.get("target")) for group in ecs_service.targets for target in _list_unhealthy(group)
        }
        for ecs_service in ecs_services
    }
    names = {name for targets in targets_by_key.values() for name in targets}
    if not names:
        return {}
    addresses = {address for name in names if (address := column_values.parse_ip_address(name))}
    is_target = Q(address__in=addresses) | Q(container_instance__ec2_instance__in=names - addresses)
    rows = ServiceInstance.objects.filter(
        is_target, ecs_service__in=[pk for pk, targets in targets_by_key.items() if targets], stopped_at=None
    )
    tasks: dict[int, dict[str, str]] = {}
    for pk, address, ec2_instance, task in rows.order_by("created_at", "pk").values_list(
        "ecs_service", "address", "container_instance__ec2_instance", "task_id"
    ):
        by_target = tasks.setdefault(pk or 0, {})
        if address in names:
            by_target[address] = task
        elif ec2_instance in names:
            by_target[ec2_instance] = "" if ec2_instance in by_target else task
    return tasks
