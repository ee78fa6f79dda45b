"""One turn of one of the steps that are current, forward or back."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from deployments.engine.shared import Shared
from deployments.models import StepExecution

Advance = Callable[[Shared, StepExecution], timedelta | None]


def take_turn(shared: Shared, current: Sequence[StepExecution], advance: Advance) -> timedelta | None:
    """Advance whichever of these steps has its turn; None means go on at once."""
    step = shared.turns.next_of(current)
    wait = None if step is None else advance(shared, step)
    if step is not None and (wait is None or len(current) == 1):
        return wait
    # Parking waits for one ECS service; another branch would not be looked at meanwhile (rule 16).
    shared.parking = None
    if step is not None and wait is not None:
        shared.turns.wait(step, shared.world.now() + wait)
        # Another branch goes on now, and may fail: what this one saw is safe first.
        shared.save()
        return None
    return shared.turns.left(current, shared.world.now())
