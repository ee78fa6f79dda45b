"""Emulated account: lock, clock, journal, faults, and the state file with one pickle of all back ends."""

import io
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import moto.backends
from moto.core.base_backend import BackendDict
from moto.core.model_instances import reset_model_data
from moto.ecs.models import ecs_backends

from sandbox.broken_rules import BROKEN_RULES
from sandbox.clock import CLOCK
from sandbox.faults import InjectedFaults
from sandbox.journal import SandboxJournal
from sandbox.programs import CONTAINER_PROCESSES
from sandbox.quotas import RequestQuotas
from sandbox.seed import AccountSeed, complete_seed, create_seed
from sandbox.services import autoscaling, cloudwatch, ecr, elb
from sandbox.services.cloudformation.internal_client import InternalClient
from sandbox.services.cloudformation.service import CloudFormationService
from sandbox.services.ecs import backend as ecs_backend
from sandbox.services.ecs import responses as ecs_responses
from sandbox.services.ecs import scheduler, task_lifecycle
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.task_containers import processes
from sandbox.snapshot_rules import SNAPSHOT_RULES

# Increase this when the stored format changes: an older file is then ignored.
STATE_VERSION = 2
LOCK_TYPE = type(RLock())
Backends = dict[str, dict[str, dict[str, Any]]]


def build_version_stamp() -> dict[str, Any]:
    return {"shape": STATE_VERSION, "moto": version("moto"), "python": list(sys.version_info[:2])}


def _make_lock() -> Any:
    return RLock()


class _Pickler(pickle.Pickler):
    """Pickler that writes locks as new locks: moto's ECR has one in each repository."""

    def reducer_override(self, obj: Any) -> Any:
        return (_make_lock, ()) if isinstance(obj, LOCK_TYPE) else NotImplemented


def dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    # Only files and snapshots that this program wrote itself get here.
    return pickle.loads(data)  # noqa: S301


def list_backends() -> Backends:
    """Return every back end that exists, by service, account and region."""
    return {
        services.service_name: {account: dict(regions.items()) for account, regions in services.items()}
        for services in BackendDict._instances
        if services.service_name != "moto_api"
    }


def restore_backends(backends: Backends) -> None:
    for service, account, region, backend in _flatten_backends(backends):
        moto.backends.get_backend(service)[account][region] = backend


def _flatten_backends(backends: Backends) -> Iterator[tuple[str, str, str, Any]]:
    for service, accounts in backends.items():
        for account, regions in accounts.items():
            for region, backend in regions.items():
                yield service, account, region, backend


class StateFile:
    """File with the state between runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sandbox.state"
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, body: bytes) -> None:
        """Replace the file in one step, so that a crash leaves the old one or the new one."""
        draft = self.path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(pickle.dumps(build_version_stamp()))
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def load(self) -> Any | None:
        """Return the stored state, or None (with a message on standard error) if it is unreadable."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            try:
                stamp = pickle.load(file)  # noqa: S301
                if stamp == build_version_stamp():
                    return pickle.load(file)  # noqa: S301
                reason = f"it was written by {stamp}, this is {build_version_stamp()}"
            except (
                pickle.UnpicklingError,
                EOFError,
                AttributeError,
                ImportError,
                TypeError,
                ValueError,
            ) as exc:
                reason = f"it cannot be read: {exc}"
        aside = self.path.with_suffix(".discarded")
        self.path.replace(aside)
        print(f"sandbox: starting empty, {aside.name} is left aside because {reason}", file=sys.stderr)  # noqa: T201
        return None


STEP_SECONDS = 1.0


class Account:
    """State of a running sandbox; every access needs `lock`."""

    def __init__(self, folder: Path | None) -> None:
        self.lock = RLock()
        self.journal = SandboxJournal()
        self.faults = InjectedFaults()
        self.quotas = RequestQuotas()
        self.file = StateFile(folder) if folder else None
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
        self.seed = self._restore() or self._create_seed()

    def _create_seed(self) -> AccountSeed:
        self.is_dirty = True
        return create_seed()

    def _restore(self) -> AccountSeed | None:
        record = self.file.load() if self.file else None
        if record is None:
            return None
        restore_backends(record["backends"])
        CLOCK.restore(record["clock"])
        self.journal.restore(record["journal"])
        self.cloudformation.stacks = record.get("stacks", [])
        seed: AccountSeed = record["seed"]
        return complete_seed(seed)

    def save(self) -> None:
        """Write the state if it has changed since the last save. Raises `OSError`."""
        with self.saving:
            if self.file is not None and self.is_dirty:
                body = self._dump()
                try:
                    self.file.save(body)
                except OSError:
                    self.is_dirty = True
                    raise
                self.saved += 1

    def _dump(self) -> bytes:
        with self.lock:
            self.is_dirty = False
            return dumps(
                {
                    "backends": list_backends(),
                    "clock": CLOCK.to_record(),
                    "journal": self.journal.to_record(),
                    "stacks": self.cloudformation.stacks,
                    "seed": self.seed,
                }
            )

    def reset(self) -> None:
        """Empty the account and seed it again; the journal numbers continue."""
        with self.lock:
            self.clear()
            self.seed = self._create_seed()

    def clear(self) -> None:
        """Empty the account; the journal numbers continue."""
        with self.lock:
            self.faults.clear()
            self.quotas.enforce(False)
            BROKEN_RULES.clear()
            SNAPSHOT_RULES.clear()
            self.journal.reset()
            CONTAINER_PROCESSES.end_all()
            BackendDict.reset()
            reset_model_data()
            CLOCK.reset()
            self.cloudformation.stacks = []

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
                self.is_dirty |= task_lifecycle.poll_processes(backend)

    def resume_programs(self) -> None:
        """Restart the processes that ended with an earlier sandbox."""
        with self.lock:
            for backend in _list_ecs_backends():
                processes.resume_processes(backend)

    def forget_instances(self) -> None:
        """Clear moto's lists of created objects, which only its dashboard uses."""
        with self.lock:
            reset_model_data()

    def snapshot(self) -> bytes:
        with self.lock:
            return dumps((list_backends(), self.cloudformation.stacks))

    @contextmanager
    def as_of(self, snapshot: bytes) -> Iterator[None]:
        """Serve responses from an earlier snapshot, then restore the present state."""
        with self.lock:
            current, stacks = list_backends(), self.cloudformation.stacks
            earlier, self.cloudformation.stacks = loads(snapshot)
            restore_backends(earlier)
            try:
                yield
            finally:
                restore_backends(current)
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
