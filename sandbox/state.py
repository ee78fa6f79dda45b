"""State file of the sandbox: one pickle of all back ends in use."""

import io
import os
import pickle
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any

import moto.backends
from moto.core.base_backend import BackendDict

# Raise this when the shape of what is kept changes: an older file is then left aside.
STATE_VERSION = 2
LOCK_TYPE = type(RLock())
Backends = dict[str, dict[str, dict[str, Any]]]


def build_version_stamp() -> dict[str, Any]:
    return {"shape": STATE_VERSION, "moto": version("moto"), "python": list(sys.version_info[:2])}


def _make_lock() -> Any:
    return RLock()


class _Pickler(pickle.Pickler):
    """Writes locks as new locks: moto's ECR keeps one in each repository."""

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
    """Every back end that exists, by service, account and region."""
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
    """Where the state is kept between runs."""

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
        """What was saved, or None (said on standard error) if there is nothing that this version can read."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            try:
                found = pickle.load(file)  # noqa: S301
                if found == build_version_stamp():
                    return pickle.load(file)  # noqa: S301
                why = f"it was written by {found}, this is {build_version_stamp()}"
            except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError) as exc:
                why = f"it cannot be read: {exc}"
        aside = self.path.with_suffix(".discarded")
        self.path.replace(aside)
        print(f"sandbox: starting empty, {aside.name} is left aside because {why}", file=sys.stderr)  # noqa: T201
        return None
