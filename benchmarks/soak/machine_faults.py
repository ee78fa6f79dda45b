"""Faults of disk, clock, browser, release and tables: F12 to F16 of the fault list."""

import contextlib
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

from benchmarks.soak.clocks import ClocksUnavailable, set_shift
from benchmarks.soak.site import ORIGIN, Site
from tests.faults.killable_process import Part
from tests.faults.next_release import copy_next_release
from tests.fixtures.process_memory import family_of
from tests.fixtures.processes import wait_until

JUMP_SECONDS: Final = 3600
LONGEST_FULL_DISK, LONGEST_JUMP, LONGEST_BROWSER = 30.0, 60.0, 60.0
BROWSERS: Final = 20
# A viewer that does not read fills these buffers, then those of the server.
RECEIVE_BUFFER: Final = 4096
END_SECONDS, READY_SECONDS = 60.0, 120.0
LOCK_TIMEOUT, LOCK_TRIES = "2s", 10
_UPGRADE: Final = (
    "GET /ws/executions/{execution}/ HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nCookie: {cookie}\r\n"
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-Proto: https\r\n\r\n"
)


def choose_seconds(longest: float) -> float:
    """Return a duration, mostly short."""
    return 1 + (longest - 1) * random.random() ** 3


def fill_disk_of_delegate(site: Site) -> None:
    """Let each write to a file of a delegate fail for a while, those of its log spool too."""
    agent = random.choice(site.agents)
    with _refuse_growth(lambda: family_of(agent.pid)):
        time.sleep(choose_seconds(LONGEST_FULL_DISK))
    _restart_if_dead(agent)


def fill_disk_of_database(site: Site) -> None:
    """Let each write of PostgreSQL fail for a while; it stops, as it cannot write its log of changes."""
    database = site.installation.database
    with _refuse_growth(lambda: family_of(database.pid)):
        time.sleep(choose_seconds(LONGEST_FULL_DISK))
    if not database.is_alive:
        database.stop()
        database.start()


@contextlib.contextmanager
def _refuse_growth(list_processes: Callable[[], list[int]]) -> Iterator[None]:
    """Refuse all writes to files, as on a full disk; new children inherit it."""
    _limit_files(list_processes, 0)
    try:
        yield
    finally:
        _limit_files(list_processes, resource.RLIM_INFINITY)


def _limit_files(list_processes: Callable[[], list[int]], size: int) -> None:
    """Set the greatest size of a file. A process may end meanwhile."""
    with contextlib.suppress(OSError):
        for pid in list_processes():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _restart_if_dead(part: Part) -> None:
    if not part.is_alive:
        part.die_and_come_back()


def shift_clock(site: Site) -> None:
    """Let the clock of all server processes, or that of a delegate, jump by an hour and back.

    Raises `ClocksUnavailable` where no clock can be shifted.
    """
    if not site.clocks:
        raise ClocksUnavailable
    clock = random.choice(site.clocks)
    set_shift(clock, random.choice((JUMP_SECONDS, -JUMP_SECONDS)))
    try:
        time.sleep(choose_seconds(LONGEST_JUMP))
    finally:
        set_shift(clock, 0)


def open_slow_browsers(site: Site) -> None:
    """Let browsers watch the newest executions without reading what they are sent."""
    installation = site.installation
    newest = "SELECT id::text FROM deployments_execution ORDER BY created_at DESC LIMIT 5"
    wait_until(lambda: bool(site.query(newest)), "the first execution", READY_SECONDS)
    executions = [execution for (execution,) in site.query(newest)]
    signed_in = installation.sign_in()
    if signed_in.status != 302:
        raise RuntimeError(f"nobody could sign in: {signed_in.status}")
    with contextlib.ExitStack() as stack:
        for number in range(BROWSERS):
            address = installation.addresses[number % len(installation.addresses)]
            browser = _open_socket(address, executions[number % len(executions)], signed_in.cookie)
            stack.callback(browser.close)
        time.sleep(choose_seconds(LONGEST_BROWSER))


def _open_socket(address: str, execution: str, cookie: str) -> socket.socket:
    parts = urlsplit(address)
    browser = socket.socket()
    browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    browser.settimeout(20)
    browser.connect((parts.hostname, parts.port))
    request = _UPGRADE.format(execution=execution, host=parts.netloc, origin=ORIGIN, cookie=cookie)
    browser.sendall(request.encode())
    status = browser.recv(len("HTTP/1.1 101"))
    if not status.endswith(b" 101"):
        browser.close()
        raise RuntimeError(f"the socket was answered {status!r}")
    return browser


def upgrade_release(site: Site) -> None:
    """Migrate to the next release, then replace one process after the other; delegates stay as they are."""
    installation = site.installation
    code = copy_next_release(installation.folder / "next")
    _migrate(installation.workers[0], code)
    for part in installation.parts:
        with contextlib.suppress(subprocess.TimeoutExpired):
            part.end(END_SECONDS)
        part.kill()
        part.code = code
        part.start()
        if part in installation.webs:
            is_ready = partial(installation.is_ready, installation.webs.index(part))
            wait_until(is_ready, "being ready", READY_SECONDS)


def _migrate(part: Part, code: Path) -> None:
    command = [sys.executable, "manage.py", "migrate", "--no-input"]
    process = subprocess.run(
        command, cwd=code, env=part.environment, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise RuntimeError(f"the migration failed: {process.stdout[-500:]}{process.stderr[-500:]}")


def change_tables(site: Site) -> None:
    """Add and drop a column and an index of busy tables, as migrations do, without a long lock."""
    url = site.installation.database.url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        for table in ("deployments_execution", "deployments_logchunk", "deployments_awscall"):
            for change in ("ADD COLUMN soak_note text", "DROP COLUMN soak_note"):
                _execute_patiently(connection, f"ALTER TABLE {table} {change}")
        columns = "deployments_awscall (operation, state)"
        connection.execute("SET lock_timeout = 0")
        connection.execute(f"CREATE INDEX CONCURRENTLY soak_index ON {columns}".encode())
        connection.execute("DROP INDEX CONCURRENTLY soak_index")


def _execute_patiently(connection: psycopg.Connection, statement: str) -> None:
    """Execute a statement; one that waited for its lock for too long is tried again."""
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(statement.encode())
            return
        time.sleep(1)
    raise RuntimeError(f"{statement}: no lock within {LOCK_TIMEOUT} in {LOCK_TRIES} tries")
