"""Runs a command with a PostgreSQL and a Valkey of its own: `python -m tests.postgres pytest …`."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ops.valkey import find_server


def _postgres_programs() -> Path:
    """The folder of initdb and postgres. Debian keeps them off PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    if not versions:
        sys.exit("No PostgreSQL was found. Install one (Debian: apt-get install postgresql) and try again.")
    return versions[-1].parent


def _unprivileged_user() -> str | None:
    """Whom to start the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: subprocess.Popen[bytes], probe: Path, port: int, log: Path) -> None:
    command = [probe, "-q", "-h", "127.0.0.1", "-p", str(port)]
    deadline = time.monotonic() + 60
    while subprocess.run(command, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"PostgreSQL did not start:\n{log.read_text()}")
        time.sleep(0.05)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A fresh PostgreSQL on a loopback port, durable enough for tests only; yields its DATABASE_URL."""
    programs, user, port = _postgres_programs(), _unprivileged_user(), free_port()
    cluster = folder / "postgres"
    cluster.mkdir(mode=0o700)
    if user:
        shutil.chown(cluster, user)
        folder.chmod(0o711)
    initdb = [programs / "initdb", "-D", cluster, "-U", "slipway", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, user=user, cwd=cluster)
    options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    switches = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", cluster, *switches], stderr=log, stdout=log, user=user, cwd=cluster
        )
        try:
            _wait_until_ready(server, programs / "pg_isready", port, folder / "postgres.log")
            yield f"postgres://slipway@127.0.0.1:{port}/slipway"
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """A fresh Valkey on a loopback port; yields its REDIS_URL."""
    port = free_port()
    command = [find_server(), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def main(command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="slipway-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with postgres(folder) as database_url, valkey(folder) as redis_url:
            environment = {**os.environ, "DATABASE_URL": database_url, "REDIS_URL": redis_url}
            return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
