"""State folder of an installation: lock, file mode, and free ports."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path


class CannotStartError(Exception):
    """Error raised when the machine prevents a start; the message names the remedy."""


@contextlib.contextmanager
def lock_state_folder(home: Path) -> Iterator[None]:
    """Lock the state folder for this process. Raises `CannotStartError` if another process has it."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _restrict_permissions(home)
        file = (home / "supervisor.lock").open("a+")
    except OSError as exc:
        raise CannotStartError(
            f"The state folder {home} cannot be used: {exc.strerror}. Choose another one with SLIPWAY_HOME."
        ) from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.seek(0)
            raise CannotStartError(
                f"Slipway is running on {home} already (process {file.read().strip() or 'unknown'}). "
                "Stop it first, or choose another folder with SLIPWAY_HOME."
            ) from exc
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _restrict_permissions(home: Path) -> None:
    """Deny other users of this machine access to session keys and secrets."""
    home.chmod(0o700)
    for path in home.iterdir():
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)


def require_free_port(port: int, variable: str) -> None:
    """Raise `CannotStartError` unless a server may listen on this port."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "there is no such port"
        raise CannotStartError(
            f"Port {port} cannot be used ({reason}). Choose another one: make run {variable}=8100"
        ) from exc
