"""How many tasks a step asks for, so that it never fights auto scaling (P07, R208)."""

from collections.abc import Mapping
from typing import Any

from aws.types import EcsService
from steps.actions.after_blue_green import count_of_pair
from steps.actions.base import Rollout
from steps.actions.scaling.state import bounds_for, found_before, is_dealt_with, wanted_by
from steps.actions.scaling.suspend import is_suspended

# Remembered where somebody else changed the count during the deployment.
COUNT_OF_OTHERS = "others changed the count"


def count_to_create(rollout: Rollout, definition: Mapping[str, Any], *, as_running: bool = False) -> int:
    """The desired count of an ECS service that does not exist yet.

    One that takes over from a blue/green pair needs as many tasks as that, where no manifest says how many.
    """
    before = count_of_pair(rollout)
    if before and (as_running or "desiredCount" not in definition):
        return _within_bounds(rollout, before)
    return _within_bounds(rollout, int(definition.get("desiredCount", 1)))


def count_to_ask(
    rollout: Rollout, definition: Mapping[str, Any], live: EcsService, *, as_running: bool
) -> int | None:
    """The desired count of an update; None leaves it alone.

    With a scalable target the count is auto scaling's, and only moved into the bounds. A service that was
    scaled down for a blue/green pair takes over its count.
    """
    before, count = count_of_pair(rollout), definition.get("desiredCount")
    is_scaled = found_before(rollout).target is not None or bool(wanted_by(rollout))
    if before and live.desired == 0 and (as_running or is_scaled or count is None):
        return _within_bounds(rollout, max(before, int(count or 0)))
    if found_before(rollout).target is not None:
        moved = _within_bounds(rollout, live.desired)
        return None if moved == live.desired else moved
    if as_running:
        return _within_bounds(rollout, running_count(rollout, live.name, live.running, live.desired))
    return None if count is None else _within_bounds(rollout, int(count))


def count_before(rollout: Rollout, before: Mapping[str, Any], live: EcsService) -> int:
    """The desired count that an undo asks for: what was there, unless others have the say.

    Auto scaling that goes on again has it, and somebody who has changed the count since we asked for it.
    """
    target = found_before(rollout).target
    if target is None:
        return live.desired if is_count_of_others(rollout, before, live.desired) else int(before["desired"])
    count = int(before["desired"]) if is_suspended(rollout) else live.desired
    return min(max(count, target.min_capacity), target.max_capacity)


def is_count_of_others(rollout: Rollout, before: Mapping[str, Any], count: int) -> bool:
    """Whether others changed the count while this step watched, to neither what was nor what it asked for."""
    return bool(rollout.recall(COUNT_OF_OTHERS)) and count not in (
        rollout.know("desiredCount"),
        before["desired"],
    )


def is_count_as_before(rollout: Rollout, before: Mapping[str, Any], count: int) -> bool:
    """Whether a count is what a rollback should have come to."""
    target = found_before(rollout).target
    if count == before["desired"]:
        return True
    if target is None:
        return is_count_of_others(rollout, before, count)
    return target.min_capacity <= count <= target.max_capacity


def running_count(rollout: Rollout, name: str, running: int, desired: int) -> int:
    """The running count (R208). Where none runs of those wanted, that is no wish: the desired count stays.

    What runs beyond the desired count is only being replaced.
    """
    if running == 0 and desired > 0:
        rollout.log(
            f"None of the {desired} wanted tasks of Service {name} is running: "
            "the desired count stays as it is",
            "warning",
        )
        return desired
    return min(running, desired)


def _within_bounds(rollout: Rollout, count: int) -> int:
    bounds = bounds_for(wanted_by(rollout), found_before(rollout)) if is_dealt_with(rollout) else None
    if bounds is None or bounds[0] <= count <= bounds[1]:
        return count
    least, most = bounds
    moved = min(max(count, least), most)
    rollout.log(
        f"The desired count {count} is outside the scalable target's {least}-{most}: it becomes {moved}"
    )
    return moved
