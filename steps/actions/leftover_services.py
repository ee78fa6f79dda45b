"""ECS services that deployments left behind: detection by live traffic, and deletion."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsService
from aws.apis.elb import ElbClient, get_target_group_weights
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import StepContext
from steps.actions.ecs_service.confirmation import confirm_service_write
from steps.actions.ecs_service.snapshots import build_snapshot, delete_ecs_service

LEFTOVER_CANARY_SUFFIX, LEFTOVER_PAIR_SUFFIXES = "Canary", ("__1", "__2")


@dataclass(frozen=True)
class Leftover:
    """An ECS service that a strategy made; `why` says why it is thought a leftover, or why it is kept."""

    name: str
    running: int | None
    desired: int | None
    may_go: bool
    why: str


@dataclass(frozen=True)
class StageRoute:
    """The listener, and its rule, that lead to a version on trial; an empty rule: the default one."""

    listener: str = ""
    rule: str = ""


@dataclass(frozen=True)
class LeftoverCandidates:
    """The ECS services of one name, and the target groups that receive production traffic."""

    services: Mapping[str, EcsService]
    live: frozenset[str]


def get_base_name(name: str) -> str:
    """Return the name that a manifest gives, of an ECS service that a strategy may have named."""
    for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def read_candidates(
    ecs: EcsClient, elb: ElbClient, *, cluster: str, base: str, stage: StageRoute
) -> LeftoverCandidates:
    """Read the ECS services of this name and where load balancers send their traffic. Raises `AwsError`."""
    names = [base, *(f"{base}{suffix}" for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES))]
    found = {one.name: one for one in ecs.describe_services(cluster, names) if one.status != "INACTIVE"}
    groups = sorted({group for one in found.values() for group in _list_target_groups(one)})
    return LeftoverCandidates(found, _find_live_groups(elb, groups, stage) if groups else frozenset())


def assess_leftovers(candidates: LeftoverCandidates, base: str) -> list[Leftover]:
    """Return the services beside the one that serves, each with whether it may be deleted, and why."""
    found = []
    for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES):
        service = candidates.services.get(f"{base}{suffix}")
        if service is not None:
            may_go, why = (_assess_canary if suffix == LEFTOVER_CANARY_SUFFIX else _assess_pair_member)(
                candidates, base, service
            )
            found.append(Leftover(service.name, service.running, service.desired, may_go, why))
    return found


def list_possible_leftovers(base: str) -> list[Leftover]:
    """Return the names that strategies give, where only an execution can look which of them are there."""
    why = "Not checked yet: the execution checks it first and keeps services that receive traffic."
    return [
        Leftover(f"{base}{suffix}", None, None, may_go=True, why=why)
        for suffix in (LEFTOVER_CANARY_SUFFIX, *LEFTOVER_PAIR_SUFFIXES)
    ]


def _assess_canary(candidates: LeftoverCandidates, base: str, canary: EcsService) -> tuple[bool, str]:
    if canary.status != "ACTIVE":
        return False, "It is already being deleted."
    shared_groups = [group for group in _list_target_groups(canary) if group in candidates.live]
    named = (
        candidates.services.get(name)
        for name in (base, *(f"{base}{suffix}" for suffix in LEFTOVER_PAIR_SUFFIXES))
    )
    others = [one for one in named if one is not None and one.status == "ACTIVE" and one.running]
    if not others:
        return False, f"Service {base} runs no task: this may be the only service that receives traffic."
    server = next((one for one in others if set(shared_groups) <= set(_list_target_groups(one))), None)
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
        (one for name, one in candidates.services.items() if _is_other_service(name, base, service.name)),
        None,
    )
    if other is None or not other.running or not set(_list_target_groups(other)) & candidates.live:
        return False, "No other ECS service of this name receives production traffic."
    return True, f"Service {other.name} receives production traffic; this one receives none."


def _is_other_service(name: str, base: str, own: str) -> bool:
    return name != own and name in [base, *(f"{base}{suffix}" for suffix in LEFTOVER_PAIR_SUFFIXES)]


def _list_target_groups(service: EcsService) -> list[str]:
    balancers = service.raw.get("loadBalancers", ())
    return [one["targetGroupArn"] for one in balancers if one.get("targetGroupArn")]


def _find_live_groups(elb: ElbClient, groups: list[str], stage: StageRoute) -> frozenset[str]:
    """Those of the groups that any rule but the stage's sends traffic to: what is not known is production."""
    balancers = sorted({arn for one in elb.get_target_groups(groups) for arn in one.load_balancers})
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
    fed: set[str] = set()
    for rule in elb.list_rules(listener):
        if is_stage and (rule.arn == stage.rule or (not stage.rule and rule.is_default)):
            continue
        fed |= _list_weighted_groups(rule.actions)
    return fed


def _list_weighted_groups(actions: list[dict[str, object]]) -> set[str]:
    return {arn for arn, weight in get_target_group_weights(actions).items() if weight > 0}


@action
@dataclass(frozen=True)
class DeleteLeftover(Action):
    """Delete an ECS service with its tasks, unless it receives production traffic by now; not undone."""

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
        found = next((one for one in assess_leftovers(candidates, base) if one.name == self.service), None)
        if found is None or not found.may_go:
            why = found.why if found else "Its name does not belong to a Slipway strategy."
            raise ActionFailed("NOT_A_LEFTOVER", f"Service {self.service} is not deleted. {why}")
        context.log(f"{found.why} It had {found.running}/{found.desired} tasks")
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
