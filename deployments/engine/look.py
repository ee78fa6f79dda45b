"""One reconcile pass: claim an execution, advance it until it has to wait, give it back."""

import os
import socket
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from deployments.engine import asked, backward, ending, forward, slots
from deployments.engine.branches import Turns
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.lease import Lease, LeaseLostError, claim, load_execution
from deployments.engine.parking import Parking
from deployments.engine.shared import Shared, Snapshot
from deployments.engine.world import REAL, World
from deployments.log import compact
from deployments.models import Execution
from steps.states import Status

# People's requests are read at the start of a pass, before each write, and this often in between.
CHECK_INTERRUPTS_SECONDS = 2


def look(
    execution_id: UUID, *, world: World = REAL, snapshot: Snapshot | None = None, owner: str = ""
) -> bool:
    """Look at one execution, if it is due and nobody else does; False if there was nothing to do."""
    lease = claim(execution_id, owner=owner or this_process(), world=world)
    if lease is None:
        return False
    reconcile_pass = _Pass(lease, snapshot or Snapshot())
    try:
        next_look, parking = reconcile_pass.advance_until_it_waits()
        reconcile_pass.rows.release(**lease.columns_at_release(next_look, parking))
    except LeaseLostError:
        return False
    if next_look is None:
        compact(execution_id)
    return True


@dataclass
class _Pass:
    """One worker's pass over one execution: its rows, and what it keeps from one advance to the next."""

    lease: Lease
    snapshot: Snapshot
    rows: ExecutionRows = field(init=False)
    _turns: Turns = field(default_factory=Turns)
    _interrupts_checked: float = 0.0

    def __post_init__(self) -> None:
        self._load(self.lease.execution)

    def advance_until_it_waits(self) -> tuple[datetime | None, Parking | None]:
        """The moment of the next pass, None when the execution is over, and what a parked one waits for."""
        while True:
            self._refresh()
            while self.rows.has_interrupts:
                asked.take_up(self.rows)
                self._load()
            if self.rows.execution.is_over:
                return None, None
            shared = self._shared()
            wait = _advance(shared)
            if wait is not None:
                return self.lease.world.now() + wait, shared.parking
            if self.lease.is_look_over():
                return self.lease.world.now(), None

    def _refresh(self) -> None:
        """Load the rows again where something else than their own commits has changed them."""
        since_check = self.lease.world.monotonic() - self._interrupts_checked
        if self.rows.is_stale or since_check >= CHECK_INTERRUPTS_SECONDS:
            self.rows.save()
            self._load()

    def _load(self, execution: Execution | None = None) -> None:
        self._interrupts_checked = self.lease.world.monotonic()
        self.rows = ExecutionRows(self.lease, execution or load_execution(self.lease.execution_id))

    def _shared(self) -> Shared:
        return Shared(
            rows=self.rows,
            stage=self.rows.current_stage,
            snapshot=self.snapshot,
            turns=self._turns,
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
