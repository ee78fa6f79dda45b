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
    """An ACTIVE ECS service; `groups` are those of its definition and those it has targets in."""

    name: str
    groups: tuple[str, ...]
    desired: int
    running: int
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_tasks(self) -> bool:
        return self.desired > 0 or self.running > 0

    @property
    def version_tag(self) -> str:
        return self.tags.get(VERSION_TAG, "")


@dataclass(frozen=True)
class ServiceFamily:
    """ECS services that deployments of one service may have created with any strategy."""

    rolling: str
    canary: str
    pair: tuple[str, str]

    @classmethod
    def from_base_name(cls, base: str) -> Self:
        """Return the family; `base` is the serviceName of the service definition."""
        return cls(base, f"{base}{CANARY_SUFFIX}", get_pair_names(base))

    @property
    def names(self) -> list[str]:
        return [self.rolling, self.canary, *self.pair]


@dataclass(frozen=True)
class BlueGreenPair:
    """Blue receives production traffic, green is replaced; an empty name means that there is none."""

    blue: str
    green: str


def identify_pair(
    candidates: Sequence[BlueGreenCandidate],
    family: ServiceFamily,
    *,
    prod: Sequence[str],
    stage: Sequence[str],
) -> BlueGreenPair:
    """Identify blue and green; `prod` are the groups with production traffic, `stage` those deployed to.

    Blue may also be the service of a rolling deployment; green is always one of the pair. Raises
    `ActionFailed` with the obstacle and the remedy: nothing is deployed then (R249).
    """
    for candidate in candidates:
        if candidate.name == family.canary and candidate.has_tasks:
            raise _build_unfinished_canary_error(candidate)
    if set(stage) & set(prod):
        return _identify_by_tasks(candidates, family, prod[0])
    blue = _choose_blue(
        [candidate for candidate in candidates if set(candidate.groups) & set(prod)], family, prod
    )
    for candidate in candidates:
        if candidate.has_tasks and not set(candidate.groups) & {*prod, *stage}:
            raise _build_unknown_traffic_error(candidate, [*prod, *stage])
        if candidate.has_tasks and candidate is not blue and candidate.name == family.rolling:
            raise _build_stage_not_free_error(candidate, stage)
    other_services = [
        candidate for candidate in candidates if candidate is not blue and candidate.name in family.pair
    ]
    if len(other_services) == 2 and all(candidate.has_tasks for candidate in other_services):
        raise _build_two_greens_error(other_services, stage[0])
    green = min(
        other_services,
        key=lambda candidate: (candidate.version_tag != GREEN, candidate.running, candidate.name),
        default=None,
    )
    return BlueGreenPair(blue.name if blue else "", green.name if green else "")


def _choose_blue(
    blues: Sequence[BlueGreenCandidate], family: ServiceFamily, prod: Sequence[str]
) -> BlueGreenCandidate | None:
    """Return the one with tasks among several services in the groups of production."""
    if len(blues) < 2:
        return next(iter(blues), None)
    running = [candidate for candidate in blues if candidate.has_tasks]
    # If none has tasks, an earlier swap scaled the rolling deployment's service to 0.
    likely = running or [candidate for candidate in blues if candidate.name in family.pair]
    if len(likely) == 1:
        return likely[0]
    raise _build_two_blues_error(likely, prod[0])


def _identify_by_tasks(
    candidates: Sequence[BlueGreenCandidate], family: ServiceFamily, group: str
) -> BlueGreenPair:
    """Identify the pair if both share one target group: by running tasks, then by tags (scenario 2)."""
    for candidate in candidates:
        if candidate.has_tasks and group not in candidate.groups:
            raise _build_unknown_traffic_error(candidate, [group])
    pair = [candidate for candidate in candidates if candidate.name in family.pair]
    running = [candidate for candidate in candidates if candidate.has_tasks]
    if len(running) > 1:
        raise _build_two_blues_error(running, group)
    if not running and len(pair) == 2:
        running = [candidate for candidate in pair if candidate.version_tag == BLUE]
        if len(running) != 1:
            raise _build_undecided_error(pair)
    blue = running[0].name if running else ""
    return BlueGreenPair(blue, next((candidate.name for candidate in pair if candidate.name != blue), ""))


def _build_unfinished_canary_error(canary: BlueGreenCandidate) -> ActionFailed:
    return ActionFailed(
        "CANARY_NOT_FINISHED",
        f"Service {canary.name} still runs {canary.running} tasks of a canary deployment that was not "
        "finished. A swap would orphan it. Delete it under Leftovers on the page of an ended "
        "execution of this service, or in AWS, and run the pipeline again.",
    )


def _build_stage_not_free_error(candidate: BlueGreenCandidate, stage: Sequence[str]) -> ActionFailed:
    return ActionFailed(
        "STAGE_NOT_FREE",
        f"Service {candidate.name}, made by a rolling deployment, has tasks in {', '.join(stage)}, where the "
        "new version is to be started: after the swap the old version would receive production traffic "
        f"beside it. Scale {candidate.name} down to 0 tasks in AWS, or choose listener rules whose prod rule "
        "leads to it, and run the pipeline again.",
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


def _build_undecided_error(candidates: Sequence[BlueGreenCandidate]) -> ActionFailed:
    return ActionFailed(
        "BLUE_NOT_CLEAR",
        f"Services {_join_names(candidates)} share one target group and neither has running tasks, so only "
        "the tag "
        f"{VERSION_TAG} could tell them apart, and it does not. Tag the live one {BLUE} and the other one "
        f"{GREEN} in "
        "AWS, and run the pipeline again.",
    )


def _build_unknown_traffic_error(candidate: BlueGreenCandidate, groups: Sequence[str]) -> ActionFailed:
    group_names = ", ".join(candidate.groups) or "no target group at all"
    return ActionFailed(
        "TRAFFIC_NOT_KNOWN",
        f"Service {candidate.name} has tasks and is registered in {group_names}, which is none of the target "
        f"groups of the prod and stage listener rules ({', '.join(groups)}). It may receive traffic that "
        "Slipway does not see. Choose the listener rules that lead to it, or scale it down to 0 tasks or "
        "delete it in AWS, and run the pipeline again.",
    )


def _join_names(services: Sequence[BlueGreenCandidate]) -> str:
    return " and ".join(service.name for service in services)
