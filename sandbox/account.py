"""Emulated account: lock, clock, journal, faults and state."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.ecs.models import ecs_backends

from sandbox import state
from sandbox.clock import CLOCK
from sandbox.faults import InjectedFaults
from sandbox.journal import SandboxJournal
from sandbox.programs import CONTAINER_PROCESSES
from sandbox.seed import AccountSeed, complete_seed, create_seed
from sandbox.services import autoscaling, cloudwatch, ecr, elb
from sandbox.services.cloudformation.internal_client import InternalClient
from sandbox.services.cloudformation.service import CloudFormationService
from sandbox.services.ecs import backend as ecs_backend
from sandbox.services.ecs import containers, scheduler
from sandbox.services.ecs import responses as ecs_responses
from sandbox.services.ecs.backend import SandboxEcs

STEP_SECONDS = 1.0


class Account:
    """The state of a running sandbox; every access to it holds `lock`."""

    def __init__(self, folder: Path | None) -> None:
        self.lock = RLock()
        self.journal = SandboxJournal()
        self.faults = InjectedFaults()
        self.file = state.StateFile(folder) if folder else None
        self.is_dirty = False
        self.saved = 0
        self.saving = Lock()
        # moto's two thousand machine images would be most of the state.
        os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        ecs_backend.install_backend()
        ecs_responses.install_responses()
        ecr.install_ecr()
        elb.install_elb()
        autoscaling.install_autoscaling()
        cloudwatch.install_cloudwatch()
        self.inside = InternalClient()
        self.cloudformation = CloudFormationService(self.inside)
        self.seed = self._restore() or self._fresh()

    def _fresh(self) -> AccountSeed:
        self.is_dirty = True
        return create_seed()

    def _restore(self) -> AccountSeed | None:
        record = self.file.load() if self.file else None
        if record is None:
            return None
        state.restore_backends(record["backends"])
        CLOCK.restore(record["clock"])
        self.journal.restore(record["journal"])
        self.cloudformation.stacks = record.get("stacks", [])
        seed: AccountSeed = record["seed"]
        return complete_seed(seed)

    def save(self) -> None:
        """Write the state if it has changed since the last save."""
        with self.saving:
            if self.file is not None and self.is_dirty:
                self.file.save(self._dump())
                self.saved += 1

    def _dump(self) -> bytes:
        with self.lock:
            self.is_dirty = False
            return state.dumps(
                {
                    "backends": state.list_backends(),
                    "clock": CLOCK.to_record(),
                    "journal": self.journal.to_record(),
                    "stacks": self.cloudformation.stacks,
                    "seed": self.seed,
                }
            )

    def reset(self) -> None:
        """Empty the account and seed it again; the journal numbers continue."""
        with self.lock:
            self.faults.clear()
            self.journal.reset()
            CONTAINER_PROCESSES.end_all()
            BackendDict.reset()
            reset_model_data()
            CLOCK.reset()
            self.cloudformation.stacks = []
            self.seed = self._fresh()

    def advance(self, seconds: float, *, by_hand: bool) -> None:
        """Advance the clock in small steps, and run the scheduler after each."""
        with self.lock:
            while seconds > 1e-9:
                step = min(STEP_SECONDS, seconds)
                seconds -= step
                CLOCK.move(step, by_hand=by_hand)
                self.is_dirty |= self._tick()

    def _tick(self) -> bool:
        changed = self.cloudformation.tick()
        for backend in _list_ecs_backends():
            if elb.advance_targets(backend.account_id, backend.region_name):
                scheduler.wake_services(backend)
                changed = True
            changed |= scheduler.tick_backend(backend)
        return changed

    def watch_programs(self) -> None:
        """Poll the container processes, which run in real time."""
        with self.lock:
            for backend in _list_ecs_backends() if CONTAINER_PROCESSES.running else ():
                self.is_dirty |= containers.poll_processes(backend)

    def resume_programs(self) -> None:
        """Restart the processes that ended with an earlier sandbox."""
        with self.lock:
            for backend in _list_ecs_backends():
                containers.resume_processes(backend)

    def forget_instances(self) -> None:
        """Clear moto's lists of created objects, which only its dashboard uses."""
        with self.lock:
            reset_model_data()

    def snapshot(self) -> bytes:
        with self.lock:
            return state.dumps((state.list_backends(), self.cloudformation.stacks))

    @contextmanager
    def as_of(self, snapshot: bytes) -> Iterator[None]:
        """Serve responses from an earlier snapshot, then restore the present state."""
        with self.lock:
            current, stacks = state.list_backends(), self.cloudformation.stacks
            earlier, self.cloudformation.stacks = state.loads(snapshot)
            state.restore_backends(earlier)
            try:
                yield
            finally:
                state.restore_backends(current)
                self.cloudformation.stacks = stacks

    def describe(self) -> dict[str, Any]:
        return {
            "status": "ok",
            "clock": CLOCK.describe(),
            "calls": self.journal.last_number,
            "saved": self.saved,
        }


def _list_ecs_backends() -> list[SandboxEcs]:
    return [
        backend
        for regions in list(ecs_backends.values())
        for backend in list(regions.values())
        if isinstance(backend, SandboxEcs)
    ]
