"""Runs a command with a PostgreSQL of its own: `python -m tests.postgres pytest …`."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_port


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
            # Fast: the default waits for clients to leave.
            server.send_signal(signal.SIGINT)
            server.wait(30)


def main(command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="slipway-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with postgres(folder) as database_url:
            environment = {**os.environ, "DATABASE_URL": database_url, "SLIPWAY_TESTS_BROKER": "tcp"}
            return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
