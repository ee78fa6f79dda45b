"""Which of two ECS services is blue and which is green, judged by target groups and tags (R246-R249)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deployments.actions.base import ActionFailed

TAG = "BG_VERSION"
BLUE, GREEN = "BLUE", "GREEN"


@dataclass(frozen=True)
class Candidate:
    """One ACTIVE ECS service of the pair as it was found."""

    name: str
    groups: tuple[str, ...]
    desired: int
    running: int
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_tasks(self) -> bool:
        return self.desired > 0 or self.running > 0

    @property
    def is_tagged(self) -> str:
        return self.tags.get(TAG, "")


@dataclass(frozen=True)
class Pair:
    """Blue receives production traffic, green is the one to replace; an empty name: there is none yet."""

    blue: str
    green: str


def identify(found: Sequence[Candidate], *, prod: Sequence[str], stage: str) -> Pair:
    """Tell blue from green; `prod` are the groups that receive production, `stage` the one deployed to.

    Raises `ActionFailed` saying what is in the way and what to do: nothing is deployed then (R249).
    """
    if stage in prod:
        return _by_tasks(found, stage)
    blues = [one for one in found if set(one.groups) & set(prod)]
    blue = _only_blue(blues, prod)
    for one in found:
        if one.has_tasks and one not in blues and stage not in one.groups:
            raise _unknown_traffic(one, [*prod, stage])
    rest = [one for one in found if one is not blue]
    if len(rest) == 2 and all(one.has_tasks for one in rest):
        raise _two_greens(rest, stage)
    green = min(rest, key=lambda one: (one.is_tagged != GREEN, one.running, one.name), default=None)
    return Pair(blue.name if blue else "", green.name if green else "")


def _only_blue(blues: Sequence[Candidate], prod: Sequence[str]) -> Candidate | None:
    """Of two services in the group of production, the one that has tasks."""
    if len(blues) < 2:
        return next(iter(blues), None)
    busy = [one for one in blues if one.has_tasks]
    if len(busy) == 1:
        return busy[0]
    raise _two_blues(blues, prod[0])


def _by_tasks(found: Sequence[Candidate], group: str) -> Pair:
    """Scenario 2: one target group for both. Running tasks make a service blue, then the tags do."""
    for one in found:
        if one.has_tasks and group not in one.groups:
            raise _unknown_traffic(one, [group])
    busy = [one for one in found if one.has_tasks]
    if len(busy) == 2:
        raise _two_blues(busy, group)
    if not busy and len(found) == 2:
        busy = [one for one in found if one.is_tagged == BLUE]
        if len(busy) != 1:
            raise _undecided(found)
    blue = busy[0].name if busy else ""
    return Pair(blue, next((one.name for one in found if one.name != blue), ""))


def _two_blues(blues: Sequence[Candidate], group: str) -> ActionFailed:
    return ActionFailed(
        "BLUE_NOT_CLEAR",
        f"Services {_names(blues)} are both registered in {group}, which receives production traffic, so "
        "Slipway cannot tell which one to keep. Scale the old one down to 0 tasks in AWS, or delete it, and "
        "run the pipeline again.",
    )


def _two_greens(greens: Sequence[Candidate], group: str) -> ActionFailed:
    return ActionFailed(
        "GREEN_NOT_CLEAR",
        f"Neither of the Services {_names(greens)} receives production traffic and both have tasks in "
        f"{group}, so Slipway cannot tell which one to replace. Delete one of them in AWS, or let the prod "
        "listener rule forward to the target group of the live one, and run the pipeline again.",
    )


def _undecided(found: Sequence[Candidate]) -> ActionFailed:
    return ActionFailed(
        "BLUE_NOT_CLEAR",
        f"Services {_names(found)} share one target group and neither has running tasks, so only the tag "
        f"{TAG} could tell them apart, and it does not. Tag the live one {BLUE} and the other one {GREEN} in "
        "AWS, and run the pipeline again.",
    )


def _unknown_traffic(one: Candidate, groups: Sequence[str]) -> ActionFailed:
    where = ", ".join(one.groups) or "no target group at all"
    return ActionFailed(
        "TRAFFIC_NOT_KNOWN",
        f"Service {one.name} has tasks and is registered in {where}, which is none of the target groups of "
        f"the prod and stage listener rules ({', '.join(groups)}). It may receive traffic that Slipway does "
        "not see. Choose the listener rules that lead to it, or scale it down to 0 tasks or delete it in "
        "AWS, and run the pipeline again.",
    )


def _names(services: Sequence[Candidate]) -> str:
    return " and ".join(one.name for one in services)
