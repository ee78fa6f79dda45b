"""Identification of blue and green by targets, target groups and tags (R246-R249)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from steps.actions.base import ActionFailed
from steps.actions.ecs_service.snapshots import CANARY_SUFFIX, get_pair_names

VERSION_TAG = "BG_VERSION"
BLUE, GREEN = "BLUE", "GREEN"


@dataclass(frozen=True)
class BlueGreenCandidate:
    """One ACTIVE ECS service as it was found; `groups` are those it names, and those it has targets in."""

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
        return self.tags.get(VERSION_TAG, "")


@dataclass(frozen=True)
class ServiceFamily:
    """The ECS services that deployments of one service may have made, whatever their strategy was."""

    rolling: str
    canary: str
    pair: tuple[str, str]

    @classmethod
    def of(cls, base: str) -> Self:
        """`base` is the serviceName of the service definition."""
        return cls(base, f"{base}{CANARY_SUFFIX}", get_pair_names(base))

    @property
    def names(self) -> list[str]:
        return [self.rolling, self.canary, *self.pair]


@dataclass(frozen=True)
class BlueGreenPair:
    """Blue receives production traffic, green is the one to replace; an empty name: there is none yet."""

    blue: str
    green: str


def identify_pair(
    found: Sequence[BlueGreenCandidate], family: ServiceFamily, *, prod: Sequence[str], stage: Sequence[str]
) -> BlueGreenPair:
    """Tell blue from green; `prod` are the groups that receive production, `stage` those deployed to.

    Blue may also be what a rolling deployment left; green is always one of the pair.
    Raises `ActionFailed` saying what is in the way and what to do: nothing is deployed then (R249).
    """
    for one in found:
        if one.name == family.canary and one.has_tasks:
            raise _build_unfinished_canary_error(one)
    if set(stage) & set(prod):
        return _identify_by_tasks(found, family, prod[0])
    blue = _choose_blue([one for one in found if set(one.groups) & set(prod)], family, prod)
    for one in found:
        if one.has_tasks and not set(one.groups) & {*prod, *stage}:
            raise _build_unknown_traffic_error(one, [*prod, *stage])
        if one.has_tasks and one is not blue and one.name == family.rolling:
            raise _build_stage_not_free_error(one, stage)
    rest = [one for one in found if one is not blue and one.name in family.pair]
    if len(rest) == 2 and all(one.has_tasks for one in rest):
        raise _build_two_greens_error(rest, stage[0])
    green = min(rest, key=lambda one: (one.is_tagged != GREEN, one.running, one.name), default=None)
    return BlueGreenPair(blue.name if blue else "", green.name if green else "")


def _choose_blue(
    blues: Sequence[BlueGreenCandidate], family: ServiceFamily, prod: Sequence[str]
) -> BlueGreenCandidate | None:
    """Of several services in the groups of production, the one that has tasks."""
    if len(blues) < 2:
        return next(iter(blues), None)
    busy = [one for one in blues if one.has_tasks]
    # Where none has any, a rolling deployment's service was left at 0 by an earlier swap.
    likely = busy or [one for one in blues if one.name in family.pair]
    if len(likely) == 1:
        return likely[0]
    raise _build_two_blues_error(likely, prod[0])


def _identify_by_tasks(
    found: Sequence[BlueGreenCandidate], family: ServiceFamily, group: str
) -> BlueGreenPair:
    """Scenario 2: one target group for both. Running tasks make a service blue, then the tags do."""
    for one in found:
        if one.has_tasks and group not in one.groups:
            raise _build_unknown_traffic_error(one, [group])
    pair = [one for one in found if one.name in family.pair]
    busy = [one for one in found if one.has_tasks]
    if len(busy) > 1:
        raise _build_two_blues_error(busy, group)
    if not busy and len(pair) == 2:
        busy = [one for one in pair if one.is_tagged == BLUE]
        if len(busy) != 1:
            raise _build_undecided_error(pair)
    blue = busy[0].name if busy else ""
    return BlueGreenPair(blue, next((one.name for one in pair if one.name != blue), ""))


def _build_unfinished_canary_error(canary: BlueGreenCandidate) -> ActionFailed:
    return ActionFailed(
        "CANARY_NOT_FINISHED",
        f"Service {canary.name} still runs {canary.running} tasks of a canary deployment that was not "
        "finished. A swap would orphan it. Delete it with Clean up on the page of an execution of "
        "this service, or in AWS, and run the pipeline again.",
    )


def _build_stage_not_free_error(one: BlueGreenCandidate, stage: Sequence[str]) -> ActionFailed:
    return ActionFailed(
        "STAGE_NOT_FREE",
        f"Service {one.name}, made by a rolling deployment, has tasks in {', '.join(stage)}, where the new "
        "version is to be started: after the swap the old version would receive production traffic beside "
        f"it. Scale {one.name} down to 0 tasks in AWS, or choose listener rules whose prod rule leads to "
        "it, and run the pipeline again.",
    )


def _build_two_blues_error(blues: Sequence[BlueGreenCandidate], group: str) -> ActionFailed:
    return ActionFailed(
        "BLUE_NOT_CLEAR",
        f"Services {_join_names(blues)} are all registered in {group}, which receives production traffic, so "
        "Slipway cannot tell which one to keep. Scale the old one down to 0 tasks in AWS, or delete it, and "
        "run the pipeline again.",
    )


def _build_two_greens_error(greens: Sequence[BlueGreenCandidate], group: str) -> ActionFailed:
    return ActionFailed(
        "GREEN_NOT_CLEAR",
        f"Neither of the Services {_join_names(greens)} receives production traffic and both have tasks in "
        f"{group}, so Slipway cannot tell which one to replace. Delete one of them in AWS, or let the prod "
        "listener rule forward to the target group of the live one, and run the pipeline again.",
    )


def _build_undecided_error(found: Sequence[BlueGreenCandidate]) -> ActionFailed:
    return ActionFailed(
        "BLUE_NOT_CLEAR",
        f"Services {_join_names(found)} share one target group and neither has running tasks, so only the "
        "tag "
        f"{VERSION_TAG} could tell them apart, and it does not. Tag the live one {BLUE} and the other one "
        f"{GREEN} in "
        "AWS, and run the pipeline again.",
    )


def _build_unknown_traffic_error(one: BlueGreenCandidate, groups: Sequence[str]) -> ActionFailed:
    where = ", ".join(one.groups) or "no target group at all"
    return ActionFailed(
        "TRAFFIC_NOT_KNOWN",
        f"Service {one.name} has tasks and is registered in {where}, which is none of the target groups of "
        f"the prod and stage listener rules ({', '.join(groups)}). It may receive traffic that Slipway does "
        "not see. Choose the listener rules that lead to it, or scale it down to 0 tasks or delete it in "
        "AWS, and run the pipeline again.",
    )


def _join_names(services: Sequence[BlueGreenCandidate]) -> str:
    return " and ".join(one.name for one in services)
