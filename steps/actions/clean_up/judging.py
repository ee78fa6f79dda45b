"""Which ECS services a strategy has left behind, and which may be deleted: judged by live traffic (N08)."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws.ecs import Ecs
from aws.elb import Elb
from aws.elb_types import weights_of
from aws.types import EcsService

CANARY, PAIR = "Canary", ("__1", "__2")


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
class World:
    """The ECS services of one name, and the target groups that receive production traffic."""

    services: Mapping[str, EcsService]
    live: frozenset[str]


def base_of(name: str) -> str:
    """The name that a manifest gives, of an ECS service that a strategy may have named."""
    for suffix in (CANARY, *PAIR):
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def see(ecs: Ecs, elb: Elb, *, cluster: str, base: str, stage: StageRoute) -> World:
    """Read the ECS services of this name and where load balancers send their traffic. Raises `AwsError`."""
    names = [base, *(f"{base}{suffix}" for suffix in (CANARY, *PAIR))]
    found = {one.name: one for one in ecs.describe_services(cluster, names) if one.status != "INACTIVE"}
    groups = sorted({group for one in found.values() for group in _groups(one)})
    return World(found, _live(elb, groups, stage) if groups else frozenset())


def judge(world: World, base: str) -> list[Leftover]:
    """The services beside the one that serves, each with whether it may be deleted, and why."""
    found = []
    for suffix in (CANARY, *PAIR):
        service = world.services.get(f"{base}{suffix}")
        if service is not None:
            may_go, why = (_canary if suffix == CANARY else _of_pair)(world, base, service)
            found.append(Leftover(service.name, service.running, service.desired, may_go, why))
    return found


def unseen(base: str) -> list[Leftover]:
    """The names that strategies give, where only an execution can look which of them are there."""
    why = "Not looked at yet: the execution looks first, and leaves what is not there or serves people."
    return [Leftover(f"{base}{suffix}", None, None, may_go=True, why=why) for suffix in (CANARY, *PAIR)]


def _canary(world: World, base: str, canary: EcsService) -> tuple[bool, str]:
    if canary.status != "ACTIVE":
        return False, "It is being deleted already."
    shared = [group for group in _groups(canary) if group in world.live]
    named = (world.services.get(name) for name in (base, *(f"{base}{suffix}" for suffix in PAIR)))
    others = [one for one in named if one is not None and one.status == "ACTIVE" and one.running]
    if not others:
        return False, f"Service {base} runs no task: this may be all that serves."
    server = next((one for one in others if set(shared) <= set(_groups(one))), None)
    if server is None:
        return False, f"It receives production traffic through {shared[0]}, and Service {base} does not."
    return (
        True,
        f"No deployment is under way that needs a canary, and Service {server.name} runs {server.running} "
        "tasks.",
    )


def _of_pair(world: World, base: str, service: EcsService) -> tuple[bool, str]:
    if service.status != "ACTIVE":
        return False, "It is being deleted already."
    groups = _groups(service)
    if not groups:
        return False, "It has no target group: nobody can see from here who uses it."
    if [group for group in groups if group in world.live] and (service.running or service.desired):
        return False, f"It receives production traffic: {service.running} tasks in {groups[0]}."
    other = next((one for name, one in world.services.items() if _is_other(name, base, service.name)), None)
    if other is None or not other.running or not set(_groups(other)) & world.live:
        return False, "No other ECS service of this name receives production traffic."
    return True, f"Service {other.name} receives production traffic; this one receives none."


def _is_other(name: str, base: str, own: str) -> bool:
    return name != own and name in [base, *(f"{base}{suffix}" for suffix in PAIR)]


def _groups(service: EcsService) -> list[str]:
    balancers = service.raw.get("loadBalancers", ())
    return [one["targetGroupArn"] for one in balancers if one.get("targetGroupArn")]


def _live(elb: Elb, groups: list[str], stage: StageRoute) -> frozenset[str]:
    """Those of the groups that any rule but the stage's sends traffic to: what is not known is production."""
    balancers = sorted({arn for one in elb.target_groups(groups) for arn in one.load_balancers})
    live: set[str] = set()
    for balancer in balancers:
        for listener in elb.listeners(balancer):
            live |= _fed_by(elb, listener.arn, listener.actions, stage)
    return frozenset(live)


def _fed_by(elb: Elb, listener: str, actions: list[dict[str, object]], stage: StageRoute) -> set[str]:
    is_stage = listener == stage.listener
    if "/net/" in listener:
        return set() if is_stage else _fed(actions)
    fed: set[str] = set()
    for rule in elb.rules(listener):
        if is_stage and (rule.arn == stage.rule or (not stage.rule and rule.is_default)):
            continue
        fed |= _fed(rule.actions)
    return fed


def _fed(actions: list[dict[str, object]]) -> set[str]:
    return {arn for arn, weight in weights_of(actions).items() if weight > 0}
