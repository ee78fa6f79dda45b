"""What a rolling or canary deployment must know of a blue/green pair that serves the same application."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.errors import Denied
from aws.types import EcsService
from deployments.actions.base import ActionFailed, Earlier, Rollout, action
from deployments.actions.blue_green.identity import BLUE, TAG
from deployments.actions.blue_green.traffic import groups_of
from deployments.actions.known_service import snapshot_of
from deployments.actions.scale_down import ScaleDown

_PAIR = "blue/green pair before"


def remember_pair(
    rollout: Rollout,
    definition: Mapping[str, Any],
    main: EcsService | None,
    pair: Sequence[EcsService],
) -> None:
    """Keep those services of a blue/green pair that this deployment takes over from, by target group.

    Raises `ActionFailed` where one of them serves production from a target group that is not deployed to:
    the deployment would succeed beside an old version that goes on serving.
    """
    groups = groups_of(definition) or (groups_of(main.raw) if main is not None else [])
    taken_over = []
    for one in pair:
        if not one.is_active or not (one.desired or one.running):
            continue
        if set(groups_of(one.raw)) & set(groups):
            taken_over.append(snapshot_of(one))
            rollout.log(
                f"Service {one.name} of an earlier blue/green deployment runs {one.running}/{one.desired} "
                "tasks in the same target group; a rolling deployment takes over from it"
            )
        else:
            _judge_other(rollout, one, groups, main)
    rollout.remember(_PAIR, taken_over)


def _judge_other(rollout: Rollout, one: EcsService, groups: Sequence[str], main: EcsService | None) -> None:
    where = ", ".join(groups_of(one.raw)) or "no target group"
    here = ", ".join(groups) or "no target group"
    if _is_live(rollout, one, main):
        raise ActionFailed(
            "STRATEGY_CHANGED",
            f"Service {one.name} of an earlier blue/green deployment serves production with {one.running} "
            f"tasks in {where}, and this service definition registers its tasks in {here}: production would "
            f"go on running the old version. Name {where} in the service definition, and {one.name} is "
            "scaled down after the deployment; or deploy with the strategy BlueGreen.",
        )
    rollout.log(
        f"Service {one.name} of an earlier blue/green deployment still runs {one.running} tasks in {where}. "
        "It receives no production traffic; Clean up on the page of this execution deletes it.",
        "warning",
    )


def _is_live(rollout: Rollout, one: EcsService, main: EcsService | None) -> bool:
    """By its tag, which a swap writes; where that says nothing, whether anything else runs at all."""
    try:
        tag = rollout.ecs.tags(one.arn).get(TAG, "")
    except Denied as denied:
        rollout.log(f"{denied.sentence} Slipway judges {one.name} without its tags.", "warning")
        tag = ""
    if tag:
        return tag == BLUE
    return main is None or not main.is_active or main.running == 0


def count_of_pair(rollout: Rollout) -> int:
    """How many tasks the pair runs that this deployment takes over from; 0 where there is none."""
    return max((int(one["running"] or one["desired"]) for one in rollout.recall(_PAIR) or ()), default=0)


@action
@dataclass(frozen=True)
class TakeOverFromPair(ScaleDown):
    """After a rolling deployment, scale the blue/green services down that served before in its place."""

    @property
    def title(self) -> str:
        return "Take over from a blue/green deployment, if there was one"

    def snapshots(self, known: Rollout | Earlier) -> Sequence[Mapping[str, Any]]:
        return known.recall(_PAIR) or []

    def may_go(self, rollout: Rollout, live: EcsService) -> bool:
        name = rollout.know("serviceName")
        main = rollout.ecs.describe_service(rollout.cluster, name)
        if main is not None and main.running > 0:
            return True
        rollout.log(
            f"Service {name} runs no task, so {live.name} stays: it is all that serves.",
            "warning",
        )
        return False
