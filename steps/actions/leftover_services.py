"""Leftover ECS services of deployments: detection by live traffic, and deletion."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsService
from aws.apis.elb import ElbClient, get_target_group_weights
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.snapshots import build_snapshot, delete_ecs_service, get_base_name

LEFTOVER_CANARY_SUFFIX, LEFTOVER_PAIR_SUFFIXES = "Canary", ("__1", "__2")


@dataclass(frozen=True)
class Leftover:
    """ECS service created by a strategy; `reason` is why it may be deleted or must be kept."""

    name: str
    running: int | None
    desired: int | None
    is_deletable: bool
    reason: str


@dataclass(frozen=True)
class StageRoute:
    """Listener and rule that route to a version under test; an empty rule is the default one."""

    listener: str = ""
    rule: str = ""


@dataclass(frozen=True)
class LeftoverCandidates:
    """ECS services with the base name, and the target groups that receive production traffic."""

    services: Mapping[str, EcsService]
    live: frozenset[str]


def read_candidates(
    ecs: EcsClient, elb: ElbClient, *, cluster: str, base: str, stage: StageRoute
) -> LeftoverCandidates:
    """Read the ECS services of this name and the targets of their load balancers. Raises `AwsError`."""
    names = [base, *(f"{base}{suffix}" for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES))]
    services = {
        service.name: service
        for service in ecs.describe_services(cluster, names)
        if service.status != "INACTIVE"
    }
    groups = sorted({group for service in services.values() for group in _list_target_groups(service)})
    return LeftoverCandidates(services, _find_live_groups(elb, groups, stage) if groups else frozenset())


def assess_leftovers(candidates: LeftoverCandidates, base: str) -> list[Leftover]:
    """Return the services other than the serving one, each with whether it may be deleted, and a reason."""
    leftovers = []
    for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES):
        service = candidates.services.get(f"{base}{suffix}")
        if service is not None:
            is_deletable, reason = (
                _assess_canary if suffix == LEFTOVER_CANARY_SUFFIX else _assess_pair_member
            )(candidates, base, service)
            leftovers.append(Leftover(service.name, service.running, service.desired, is_deletable, reason))
    return leftovers


def list_possible_leftovers(base: str) -> list[Leftover]:
    """Return the names that strategies use; only an execution can check which of them exist."""
    reason = "Not checked yet: the execution checks it first and keeps services that receive traffic."
    return [
        Leftover(f"{base}{suffix}", None, None, is_deletable=True, reason=reason)
        for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES)
    ]


def _assess_canary(candidates: LeftoverCandidates, base: str, canary: EcsService) -> tuple[bool, str]:
    if canary.status != "ACTIVE":
        return False, "It is already being deleted."
    shared_groups = [group for group in _list_target_groups(canary) if group in candidates.live]
    candidates_in_service = (
        candidates.services.get(name)
        for name in (base, *(f"{base}{suffix}" for suffix in LEFTOVER_PAIR_SUFFIXES))
    )
    running_services = [
        service
        for service in candidates_in_service
        if service is not None and service.status == "ACTIVE" and service.running
    ]
    if not running_services:
        return False, f"Service {base} runs no task: this may be the only service that receives traffic."
    server = next(
        (service for service in running_services if set(shared_groups) <= set(_list_target_groups(service))),
        None,
    )
    if server is None:
        return (
            False,
            f"It receives production traffic through {shared_groups[0]}, and Service {base} does not.",
        )
    return (
        True,
        f"No deployment is under way that needs a canary, and Service {server.name} runs {server.running} "
        "tasks.",
    )


def _assess_pair_member(candidates: LeftoverCandidates, base: str, service: EcsService) -> tuple[bool, str]:
    if service.status != "ACTIVE":
        return False, "It is already being deleted."
    groups = _list_target_groups(service)
    if not groups:
        return False, "It has no target group: Slipway cannot determine who uses it."
    if [group for group in groups if group in candidates.live] and (service.running or service.desired):
        return False, f"It receives production traffic: {service.running} tasks in {groups[0]}."
    other = next(
        (
            candidate
            for name, candidate in candidates.services.items()
            if _is_other_service(name, base, service.name)
        ),
        None,
    )
    if other is None or not other.running or not set(_list_target_groups(other)) & candidates.live:
        return False, "No other ECS service of this name receives production traffic."
    return True, f"Service {other.name} receives production traffic; this one receives none."


def _is_other_service(name: str, base: str, own: str) -> bool:
    return name != own and name in [base, *(f"{base}{suffix}" for suffix in LEFTOVER_PAIR_SUFFIXES)]


def _list_target_groups(service: EcsService) -> list[str]:
    balancers = service.raw.get("loadBalancers", ())
    return [balancer["targetGroupArn"] for balancer in balancers if balancer.get("targetGroupArn")]


def _find_live_groups(elb: ElbClient, groups: list[str], stage: StageRoute) -> frozenset[str]:
    """Return the groups that any rule but the stage's sends traffic to; unknown rules are production."""
    balancers = sorted({arn for group in elb.get_target_groups(groups) for arn in group.load_balancers})
    live: set[str] = set()
    for balancer in balancers:
        for listener in elb.list_listeners(balancer):
            live |= _list_groups_of_listener(elb, listener.arn, listener.actions, stage)
    return frozenset(live)


def _list_groups_of_listener(
    elb: ElbClient, listener: str, actions: list[dict[str, object]], stage: StageRoute
) -> set[str]:
    is_stage = listener == stage.listener
    if "/net/" in listener:
        return set() if is_stage else _list_weighted_groups(actions)
    live: set[str] = set()
    for rule in elb.list_rules(listener):
        if is_stage and (rule.arn == stage.rule or (not stage.rule and rule.is_default)):
            continue
        live |= _list_weighted_groups(rule.actions)
    return live


def _list_weighted_groups(actions: list[dict[str, object]]) -> set[str]:
    return {arn for arn, weight in get_target_group_weights(actions).items() if weight > 0}


@action
@dataclass(frozen=True)
class DeleteLeftover(Action):
    """Delete an ECS service with its tasks, unless it receives production traffic; it has no undo."""

    service: str
    stage_listener: str = ""
    stage_rule: str = ""

    @property
    def title(self) -> str:
        return f"Delete Service {self.service} if it is a leftover"

    def start(self, context: StepContext) -> None:
        base = get_base_name(self.service)
        context.acquire_service_lock(base)
        context.set_outputs(serviceName=self.service)
        stage = StageRoute(self.stage_listener, self.stage_rule)
        candidates = read_candidates(
            context.ecs, context.elb, cluster=context.cluster, base=base, stage=stage
        )
        live = candidates.services.get(self.service)
        context.save_for_rollback("service before", None if live is None else build_snapshot(live))
        if live is None:
            context.log(f"Service {self.service} is already deleted")
            return
        leftover = next(
            (candidate for candidate in assess_leftovers(candidates, base) if candidate.name == self.service),
            None,
        )
        if leftover is None or not leftover.is_deletable:
            reason = leftover.reason if leftover else "Its name does not belong to a Slipway strategy."
            raise ActionFailed("NOT_A_LEFTOVER", f"Service {self.service} is not deleted. {reason}")
        context.log(f"{leftover.reason} It had {leftover.running}/{leftover.desired} tasks")
        delete_ecs_service(context, self.service, live)
        context.log(f"Waiting for existing Service {self.service} to reach inactive state")
        context.wait_for_service(self.service)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_service_write(context, call, task_definition="", before="")

    def is_done(self, context: StepContext) -> bool:
        context.wait_for_change()
        service = context.observe_service(self.service).service
        if service is not None and service.status != "INACTIVE":
            return False
        context.log(f"Existing Service {self.service} reached inactive state", "success")
        return True
