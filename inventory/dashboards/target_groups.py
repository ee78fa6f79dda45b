"""Target groups of a dashboard: unhealthy targets, their ECS tasks and hints."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync import column_values

# By the code that AWS gives (TargetHealth.Reason).
_REASON_HINTS: Final[Mapping[str, str]] = {
    "Elb.RegistrationInProgress": "Wait: the load balancer takes it up.",
    "Elb.InitialHealthChecking": "Wait for its first health checks. Should it take long, compare the grace"
    " period with how long the program takes to start.",
    "Elb.InternalError": "Look at the health of AWS in this region; the target is not to blame.",
    "Target.ResponseCodeMismatch": "Read the log of the task, and compare the path of the health check and"
    " the codes that it expects with what the program answers.",
    "Target.Timeout": "Let the security group of the tasks admit the load balancer on this port, and see that"
    " the program answers in time.",
    "Target.FailedHealthChecks": "See that the program listens on this port at 0.0.0.0, and that the security"
    " group of the tasks admits the load balancer.",
    "Target.NotInUse": "Let a listener or a rule forward to this target group: until then nothing is"
    " checked.",
    "Target.NotRegistered": "Nothing to do if the task has stopped; otherwise deploy again.",
    "Target.InvalidState": "Nothing to do: the machine behind it has stopped.",
    "Target.IpUnusable": "Its address belongs to a load balancer: give the tasks other subnets.",
    "Target.HealthCheckDisabled": "Turn on the health checks of the target group.",
    "Target.DeregistrationInProgress": "Nothing to do: it finishes the requests that it has. The target group"
    " says how long it may take.",
}
# Where there is no code, or one that is new.
_STATE_HINTS: Final[Mapping[str, str]] = {
    "unhealthy": "Read the log of the task, and look at the health check of the target group.",
    "unavailable": "Look at the health check of the target group, and at the health of AWS in this region.",
    "unused": _REASON_HINTS["Target.NotInUse"],
    "draining": _REASON_HINTS["Target.DeregistrationInProgress"],
    "initial": _REASON_HINTS["Elb.RegistrationInProgress"],
}
# How pages show each state.
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
    """A target that gets no traffic; `task` is the id of the ECS task behind it, if one runs there."""

    target: str
    port: int | None
    zone: str
    state: str
    reason: str
    description: str
    task: str

    @property
    def is_unhealthy(self) -> bool:
        """Whether it should get traffic and gets none."""
        return self.state.startswith(UNHEALTHY_STATES)

    @property
    def badge(self) -> str:
        """How pages show its state."""
        return _get_state_badge(self.state)

    @property
    def hint(self) -> str:
        """What somebody can do about it."""
        known = _REASON_HINTS.get(self.reason)
        return known or _STATE_HINTS.get(self.state.partition(".")[0], _STATE_HINTS["unhealthy"])


@dataclass(frozen=True)
class DashboardTargetGroup:
    """A target group as it was last read: how many targets in which state, and some that are not healthy."""

    arn: str
    name: str
    is_missing: bool
    counts: Mapping[str, int]
    targets: tuple[DashboardTarget, ...]
    read_at: datetime | None

    @property
    def state_counts(self) -> list[tuple[str, str, int]]:
        """Of each state how pages show it, its word, and how many targets are in it; the worst first."""
        return [(_get_state_badge(state), state, count) for state, count in self.counts.items()]

    @property
    def targets_total(self) -> int:
        return sum(count for state, count in self.counts.items() if state != "healthy")

    @property
    def unhealthy_total(self) -> int:
        return sum(count for state, count in self.counts.items() if state.startswith(UNHEALTHY_STATES))


def build_target_group(arn: str, known: Mapping[str, Any], tasks: Mapping[str, str]) -> DashboardTargetGroup:
    """A target group out of what sync has kept of it; `tasks` has the ids of tasks by their addresses."""
    counts = known.get("counts", {})
    states = sorted(counts, key=lambda state: (_get_state_rank(state), state))
    bad = [_build_target(one, tasks) for one in _list_unhealthy(known)]
    return DashboardTargetGroup(
        arn=arn,
        name=str(known.get("name") or arn.split("/")[1]),
        is_missing=bool(known.get("is_missing")),
        counts={state: counts[state] for state in states},
        targets=tuple(sorted(bad, key=lambda one: (_get_state_rank(one.state), one.target))),
        read_at=column_values.parse_datetime(known.get("read_at")),
    )


def _get_state_badge(state: str) -> str:
    return _STATE_BADGES.get(state, "UNHEALTHY")


def _get_state_rank(state: str) -> int:
    return _STATE_ORDER.index(state) if state in _STATE_ORDER else 0


def _build_target(told: Mapping[str, Any], tasks: Mapping[str, str]) -> DashboardTarget:
    names = ("target", "zone", "state", "reason", "description")
    texts = {name: str(told.get(name) or "") for name in names}
    return DashboardTarget(port=told.get("port"), task=tasks.get(texts["target"], ""), **texts)


def _list_unhealthy(known: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*known.get("unhealthy", ()), *known.get("others", ())]


def get_target_tasks(seen: Iterable[EcsServiceRecord]) -> dict[int, dict[str, str]]:
    """By service, the ids of tasks by the targets that are not healthy; one query, none where all are.

    A target is an address, or an EC2 instance; of one with several tasks of a service nobody knows whose
    it is.
    """
    wanted = {
        one.pk: {str(told.get("target")) for group in one.targets for told in _list_unhealthy(group)}
        for one in seen
    }
    names = {name for each in wanted.values() for name in each}
    if not names:
        return {}
    addresses = {address for name in names if (address := column_values.parse_ip_address(name))}
    behind = Q(address__in=addresses) | Q(container_instance__ec2_instance__in=names - addresses)
    rows = ServiceInstance.objects.filter(
        behind, ecs_service__in=[pk for pk, each in wanted.items() if each], stopped_at=None
    )
    found: dict[int, dict[str, str]] = {}
    for pk, address, machine, task in rows.order_by("created_at", "pk").values_list(
        "ecs_service", "address", "container_instance__ec2_instance", "task_id"
    ):
        known = found.setdefault(pk or 0, {})
        if address in names:
            known[address] = task
        elif machine in names:
            known[machine] = "" if machine in known else task
    return found
