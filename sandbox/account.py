"""The pretend account as a whole: its lock, clock, journal, faults and memory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.ecs.models import ecs_backends

from sandbox import ecr, elb, metrics, scaling, state
from sandbox.clock import CLOCK
from sandbox.cloudformation.inside import Inside
from sandbox.cloudformation.service import CloudFormation
from sandbox.ecs import backend as ecs_backend
from sandbox.ecs import containers, scheduler
from sandbox.ecs import responses as ecs_responses
from sandbox.ecs.backend import SandboxEcs
from sandbox.faults import Faults
from sandbox.journal import Journal
from sandbox.programs import PROGRAMS
from sandbox.seed import Seed, complete, plant

STEP = 1.0


class Account:
    """Everything that a running sandbox owns. `lock` is held by whoever looks at or changes any of it."""

    def __init__(self, folder: Path | None) -> None:
        self.lock = RLock()
        self.journal = Journal()
        self.faults = Faults()
        self.file = state.StateFile(folder) if folder else None
        self.is_dirty = False
        self.saved = 0
        self.saving = Lock()
        # Two thousand machine images that nothing here runs on would be most of the state.
        os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        ecs_backend.install()
        ecs_responses.install()
        ecr.install()
        elb.install()
        scaling.install()
        metrics.install()
        self.inside = Inside()
        self.cloudformation = CloudFormation(self.inside)
        self.seed = self._restore() or self._fresh()

    def _fresh(self) -> Seed:
        self.is_dirty = True
        return plant()

    def _restore(self) -> Seed | None:
        record = self.file.load() if self.file else None
        if record is None:
            return None
        state.put_back(record["backends"])
        CLOCK.restore(record["clock"])
        self.journal.restore(record["journal"])
        self.cloudformation.stacks = record.get("stacks", [])
        seed: Seed = record["seed"]
        return complete(seed)

    def save(self) -> None:
        """Write the state if it changed since the last time."""
        with self.saving:
            if self.file is not None and self.is_dirty:
                self.file.save(self._dump())
                self.saved += 1

    def _dump(self) -> bytes:
        with self.lock:
            self.is_dirty = False
            return state.dumps(
                {
                    "backends": state.backends_in_use(),
                    "clock": CLOCK.to_record(),
                    "journal": self.journal.to_record(),
                    "stacks": self.cloudformation.stacks,
                    "seed": self.seed,
                }
            )

    def reset(self) -> None:
        """Empty the account and plant it again; numbers in the journal go on."""
        with self.lock:
            self.faults.clear()
            self.journal.reset()
            PROGRAMS.end_all()
            BackendDict.reset()
            reset_model_data()
            CLOCK.reset()
            self.cloudformation.stacks = []
            self.seed = self._fresh()

    def advance(self, seconds: float, *, by_hand: bool) -> None:
        """Move time on in small steps and let the scheduler work after each."""
        with self.lock:
            while seconds > 1e-9:
                step = min(STEP, seconds)
                seconds -= step
                CLOCK.move(step, by_hand=by_hand)
                self.is_dirty |= self._tick()

    def _tick(self) -> bool:
        changed = self.cloudformation.tick()
        for backend in _schedulers():
            if elb.advance(backend.account_id, backend.region_name):
                scheduler.wake(backend)
                changed = True
            changed |= scheduler.tick(backend)
        return changed

    def watch_programs(self) -> None:
        """Look after the processes, whose time is the real one."""
        with self.lock:
            for backend in _schedulers() if PROGRAMS.running else ():
                self.is_dirty |= containers.watch(backend)

    def resume_programs(self) -> None:
        """Start the processes anew that ended with an earlier sandbox."""
        with self.lock:
            for backend in _schedulers():
                containers.resume(backend)

    def forget_instances(self) -> None:
        """Drop the lists in which moto keeps every object it ever made, for a dashboard nobody has."""
        with self.lock:
            reset_model_data()

    def snapshot(self) -> bytes:
        with self.lock:
            return state.dumps((state.backends_in_use(), self.cloudformation.stacks))

    @contextmanager
    def as_of(self, snapshot: bytes) -> Iterator[None]:
        """Answer from an earlier snapshot for a moment; what is really there comes back unchanged."""
        with self.lock:
            real, stacks = state.backends_in_use(), self.cloudformation.stacks
            earlier, self.cloudformation.stacks = state.loads(snapshot)
            state.put_back(earlier)
            try:
                yield
            finally:
                state.put_back(real)
                self.cloudformation.stacks = stacks

    def describe(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "clock": CLOCK.describe(),
            "calls": self.journal.last_number,
            "saved": self.saved,
        }


def _schedulers() -> list[SandboxEcs]:
    return [
        backend
        for regions in list(ecs_backends.values())
        for backend in list(regions.values())
        if isinstance(backend, SandboxEcs)
    ]
