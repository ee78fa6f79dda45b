"""PostgreSQL for tests: `python -m tests.postgres pytest …` runs a command with a server of its own.

The server has a migrated template; each test process creates its database from it.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from ops.supervision.child_process import build_death_signal_hook
from tests.ports import free_port

TEMPLATE = "slipway_template"


class NoPostgresError(SystemExit):
    """This machine has no PostgreSQL programs."""


def _postgres_programs() -> Path:
    """Return the folder of initdb and postgres, which Debian keeps off PATH."""
    if path := shutil.which("initdb"):
        return Path(path).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    if not versions:
        raise NoPostgresError(
            "No PostgreSQL was found. Install one (Debian: apt-get install postgresql) and try again."
        )
    return versions[-1].parent


def _unprivileged_user() -> str | None:
    """Whom to start the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Postgres:
    """A PostgreSQL on a loopback port, durable enough for tests only; it can be stopped and started again.

    Raises `NoPostgresError`.
    """

    def __init__(self, folder: Path) -> None:
        self.programs, self.port = _postgres_programs(), free_port()
        self._user, self._folder, self._cluster = _unprivileged_user(), folder, folder / "postgres"
        self._server: subprocess.Popen[bytes] | None = None
        self._cluster.mkdir(mode=0o700)
        if self._user:
            shutil.chown(self._cluster, self._user)
            folder.chmod(0o711)
        command = [self.programs / "initdb", "-D", self._cluster, "-U", "slipway", "-A", "trust"]
        subprocess.run(
            [*command, "-E", "UTF8", "--no-sync"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd=self._cluster,
        )

    @property
    def url(self) -> str:
        """Return the DATABASE_URL."""
        return f"postgres://slipway@127.0.0.1:{self.port}/slipway"

    @property
    def pid(self) -> int:
        """Return the id of the server's first process; 0 while it does not run."""
        return self._server.pid if self.is_alive and self._server is not None else 0

    @property
    def is_alive(self) -> bool:
        """Return whether the server runs."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
        }
        switches = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._server = subprocess.Popen(
                [self.programs / "postgres", "-D", self._cluster, *switches],
                stderr=log,
                stdout=log,
                user=self._user,
                cwd=self._cluster,
                start_new_session=True,
                preexec_fn=build_death_signal_hook(os.getpid(), signal.SIGQUIT),
            )
        self._wait_until_ready(self._server)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT without waiting for its clients, SIGQUIT at once and without a word."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(30)
            self._server = None

    @property
    def _log(self) -> Path:
        return self._folder / "postgres.log"

    def _wait_until_ready(self, server: subprocess.Popen[bytes]) -> None:
        command = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 60
        while subprocess.run(command, check=False).returncode != 0:
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"PostgreSQL did not start:\n{self._log.read_text()}")
            time.sleep(0.05)


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A fresh PostgreSQL that runs until the block ends."""
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def create_template(server: Postgres, environment: Mapping[str, str]) -> None:
    """Create and migrate the template in a process that ends: nobody may be connected while it is copied."""
    maintenance = f"host=127.0.0.1 port={server.port} user=slipway dbname=postgres"
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE}")
    command = [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--verbosity", "0"]
    url = server.url.removesuffix("/slipway") + f"/{TEMPLATE}"
    settings = {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    subprocess.run(command, env={**environment, **settings}, check=True)


def main(command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="slipway-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with postgres(folder) as server:
            environment = {**os.environ, "DATABASE_URL": server.url, "SLIPWAY_TESTS_BROKER": "tcp"}
            create_template(server, environment)
            environment["SLIPWAY_TESTS_TEMPLATE"] = TEMPLATE
            return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
