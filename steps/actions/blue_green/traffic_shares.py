"""Shares of production traffic that shift steps give to the new version, in percent."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

from aws.apis.elb import MAX_WEIGHT
from steps.actions.blue_green.listener_rules import ListenerRoute, build_forward_actions
from steps.actions.blue_green.traffic import ListenerPair, load_traffic
from steps.actions.context import EarlierStep, StepContext

SHIFT_STEP_TYPE = "EcsBlueGreenTrafficShift"
WHOLE = 100
_PLANNED_KEY, _EARLIER_KEY = "planned shares", "earlier shares"


@dataclass(frozen=True)
class TrafficShares:
    """Shares of the new version; 0 stands for the rules from when the deployment began.

    `written` are all whose writes began, the oldest first; `current` are those that a rule may have now.
    """

    written: tuple[int, ...] = (0,)
    current: tuple[int, ...] = (0,)


def compute_weights(old: Mapping[str, int], new: str, percent: int) -> dict[str, int]:
    """Return weights that give `percent` of the traffic to the group `new`.

    The groups of `old`, by weight, share the rest as before. They stay at 100 percent too, with weight 0, so
    that AWS goes on checking their health.
    """
    total = sum(old.values())
    weights = {group: weight * (WHOLE - percent) for group, weight in old.items()} | {new: total * percent}
    is_whole = all(weight % total == 0 for weight in weights.values())
    divisor = total if is_whole else gcd(*weights.values())
    weights = {group: weight // divisor for group, weight in weights.items()}
    largest = max(weights.values())
    if largest <= MAX_WEIGHT:
        return weights
    return {
        group: max(1, round(weight * MAX_WEIGHT / largest)) if weight else 0
        for group, weight in weights.items()
    }


def build_share_actions(pair: ListenerPair, percent: int) -> list[dict[str, Any]]:
    """Return the actions of the prod rule with `percent` of the traffic to the new version."""
    if percent == 0:
        return pair.prod.actions
    return build_forward_actions(
        pair.prod.actions, compute_weights(pair.prod.weights, pair.stage_group, percent)
    )


def save_planned_shares(context: StepContext, percents: list[int]) -> None:
    """Save the shares that this step writes one after the other."""
    context.save_for_rollback(_PLANNED_KEY, percents)


def save_earlier_shares(context: StepContext) -> None:
    """Save the shares that earlier shift steps of the stage left; those that did not run left none."""
    steps = context.list_earlier_steps(SHIFT_STEP_TYPE)
    last = next((step for step in steps if step.load_for_rollback(_PLANNED_KEY)), None)
    shares = TrafficShares() if last is None else load_shares(last)
    context.save_for_rollback(
        _EARLIER_KEY, {"written": list(shares.written), "current": list(shares.current)}
    )


def mark_begun(context: StepContext, percent: int) -> None:
    """Save that the writes of a share are about to begin."""
    context.save_for_rollback(f"share {percent} begun", True)


def mark_written(context: StepContext, percent: int) -> None:
    """Save that all writes of a share were answered."""
    context.save_for_rollback(f"share {percent} written", True)


def load_shares(saved: StepContext | EarlierStep) -> TrafficShares:
    """Return the shares that this step and those before it have written."""
    earlier = saved.load_for_rollback(_EARLIER_KEY) or {"written": [0], "current": [0]}
    written, current = list(earlier["written"]), list(earlier["current"])
    for percent in saved.load_for_rollback(_PLANNED_KEY) or ():
        if not saved.load_for_rollback(f"share {percent} begun"):
            continue
        written.append(percent)
        current = [percent] if saved.load_for_rollback(f"share {percent} written") else [*current, percent]
    return TrafficShares(tuple(written), tuple(current))


def get_first_planned_share(saved: StepContext | EarlierStep) -> int:
    """Return the first share of this step."""
    return int(saved.load_for_rollback(_PLANNED_KEY)[0])


def list_current_forwards(context: StepContext, route: ListenerRoute) -> list[list[dict[str, Any]]]:
    """Return the actions that a rule has now unless somebody else changed it."""
    return _list_forwards(context, route, load_shares(context).current)


def list_written_forwards(context: StepContext, route: ListenerRoute) -> list[list[dict[str, Any]]]:
    """Return the actions that this deployment has found or written in a rule at any time."""
    return _list_forwards(context, route, load_shares(context).written)


def _list_forwards(
    context: StepContext, route: ListenerRoute, percents: tuple[int, ...]
) -> list[list[dict[str, Any]]]:
    pairs = load_traffic(context).prod_pairs
    pair = next((candidate for candidate in pairs if candidate.prod == route), None)
    return [route.actions] if pair is None else [build_share_actions(pair, percent) for percent in percents]
