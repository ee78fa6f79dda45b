"""One look: claim an execution, move it on until something must be waited for, say when to look again."""

import os
import socket
from datetime import datetime, timedelta
from uuid import UUID

from deployments.engine import asked, backward, ending, forward, slots
from deployments.engine.branches import Turns
from deployments.engine.lease import Lease, LeaseLostError, claim
from deployments.engine.masking import secrets_of
from deployments.engine.parking import Parking
from deployments.engine.shared import Shared, Snapshot
from deployments.engine.world import REAL, World
from deployments.log import compact
from deployments.models import Execution
from deployments.states import TERMINAL, Status


def look(
    execution_id: UUID, *, world: World = REAL, snapshot: Snapshot | None = None, owner: str = ""
) -> bool:
    """Look at one execution, if it is due and nobody else does; False if there was nothing to do."""
    lease = claim(execution_id, owner=owner or this_process(), world=world)
    if lease is None:
        return False
    try:
        next_look, parking = _move_on(lease, snapshot or Snapshot())
        lease.release(next_look, parking)
    except LeaseLostError:
        return False
    if next_look is None:
        compact(execution_id)
    return True


def _move_on(lease: Lease, snapshot: Snapshot) -> tuple[datetime | None, Parking | None]:
    """Advance until there is nothing to do now; the moment of the next look, None when it is over.

    With it comes what a parked execution waits for.
    """
    turns = Turns()
    while True:
        execution = Execution.objects.select_related("scope", "pipeline").get(pk=lease.execution_id)
        asked.take_up(lease, execution)
        if execution.is_over:
            return None, None
        shared = _shared(lease, execution, snapshot, turns)
        wait = _advance(shared)
        if wait is not None:
            return lease.world.now() + wait, shared.parking
        if lease.is_look_over():
            return lease.world.now(), None


def _shared(lease: Lease, execution: Execution, snapshot: Snapshot, turns: Turns) -> Shared:
    stages = list(execution.stages.select_related("connector__secret", "execution").order_by("position"))
    stage = next((s for s in stages if s.status not in TERMINAL), stages[-1])
    return Shared(
        execution=execution,
        stage=stage,
        lease=lease,
        world=lease.world,
        snapshot=snapshot,
        secrets=secrets_of(stage),
        turns=turns,
    )


def _advance(shared: Shared) -> timedelta | None:
    """One step of progress: None means go on at once."""
    stage = shared.stage
    if not slots.regain(shared):
        return slots.WAIT
    if shared.execution.ending:
        return ending.advance(shared)
    if shared.execution.rolling_back:
        return backward.advance(shared)
    if stage.status == Status.QUEUED and not shared.claims:
        forward.begin_stage(shared)
        return None
    return forward.advance(shared)


def this_process() -> str:
    """The owner of the leases that this process takes."""
    return f"{socket.gethostname()}:{os.getpid()}"[:128]
