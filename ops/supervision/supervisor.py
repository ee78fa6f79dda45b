"""Supervisor of an embedded Slipway: preparation, start, restart and ordered stop of all programs."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from django.conf import settings

from ops.demo.credentials import get_demo_api_key, get_demo_password
from ops.supervision import programs, valkey
from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console
from ops.supervision.liveness import restart_when_unresponsive
from ops.supervision.programs import Program


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


# These prepare nothing.
_EXCLUDED_FOLDERS: Final = {"tests", "benchmarks"}
_FINGERPRINT_VARIABLES = ("SLIPWAY_DEMO_PASSWORD", "SLIPWAY_DEMO_API_KEY", "DATABASE_URL", "PUBLIC_URL")


def compute_fingerprint() -> str:
    """Return a digest of the demo's inputs: code, static files, database file and settings."""
    digest = hashlib.sha256()
    for path in sorted(_list_files()):
        status = path.stat()
        digest.update(f"{path}\0{status.st_mtime_ns}\0{status.st_size}\n".encode(errors="surrogateescape"))
    for name in _FINGERPRINT_VARIABLES:
        digest.update(f"{name}={os.environ.get(name, '')}\n".encode(errors="surrogateescape"))
    digest.update(f"{settings.SANDBOX_URL}\n{_identify_database()}\n".encode())
    return digest.hexdigest()


def load_fingerprint() -> str:
    """Return the stored digest, or an empty text without one or without our own database file."""
    try:
        return (settings.HOME / "prepared").read_text()
    except FileNotFoundError:
        return ""


def save_fingerprint() -> None:
    """Store the digest after the preparation."""
    (settings.HOME / "prepared").write_text(compute_fingerprint())


def _list_files() -> list[Path]:
    packages = (path.parent for path in settings.ROOT.glob("*/__init__.py"))
    folders = [
        settings.ROOT / "static",
        *(folder for folder in packages if folder.name not in _EXCLUDED_FOLDERS),
    ]
    return [path for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc"]


def _identify_database() -> str:
    """Return the identity of the database; a recreated file has a new one."""
    database = settings.DATABASES["default"]
    if "sqlite3" not in str(database["ENGINE"]):
        # The state of a remote database is unknown here.
        return os.urandom(16).hex()
    try:
        return str(Path(str(database["NAME"])).stat().st_ino)
    except FileNotFoundError:
        return "absent"


def render_welcome(seconds: float) -> str:
    """Return the text of the block."""
    rows = [
        ("Open", f"{settings.PUBLIC_URL}/"),
        ("Sign in as", f"admin, deployer or viewer, password {get_demo_password()}"),
        ("API key", get_demo_api_key()),
        ("API", f"{settings.PUBLIC_URL}/api/docs/"),
        ("Terminal", f".venv/bin/slipway login --key --url {settings.PUBLIC_URL}"),
        ("Try", "Pipelines, Rolling demo, Run; then once more with the tag crash"),
        ("State", f"{settings.HOME} (SLIPWAY_HOME)"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}}  {value}" for name, value in rows]
    rule = "-" * min(100, max(len(line) for line in lines) + 2)
    return "\n".join(
        ["", rule, f"  Slipway is ready after {seconds:.1f} s. Ctrl-C ends it.", "", *lines, rule, ""]
    )


READY_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.1


class Supervisor:
    """The one process that a person starts; all others are its children."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._environment = programs.build_environment()
        self._children: list[ChildProcess] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._liveness: asyncio.Task[None] | None = None
        self._end_request = asyncio.Event()
        self._failure: BaseException | None = None
        self._began = time.monotonic()

    async def run(self) -> int:
        """Run until a signal ends it; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._request_end)
        start = asyncio.create_task(self._start())
        end_request = asyncio.create_task(self._end_request.wait())
        try:
            await asyncio.wait({start, end_request}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                # Raises the error that prevented the start.
                start.result()
                await end_request
            if self._failure is not None:
                raise self._failure
            return 0
        finally:
            start.cancel()
            end_request.cancel()
            await self._stop_all()

    async def _start(self) -> None:
        valkey.create_folders(settings.HOME)
        if broker := programs.get_broker():
            self._run_program(broker)
            await self._wait_until(self._is_broker_ready, "valkey", 15)
        self._run_program(programs.get_sandbox())
        await self._prepare()
        web = self._run_program(programs.get_web())
        self._liveness = asyncio.create_task(restart_when_unresponsive(web, settings.ENV.port, self._console))
        for program in (programs.get_worker(), programs.get_beat()):
            self._run_program(program)
        await self._print_when_ready()

    async def _prepare(self) -> None:
        """Prepare database, static files and demo if anything changed since the last start."""
        current = compute_fingerprint()
        if load_fingerprint() == current:
            return
        child = ChildProcess(programs.get_preparation(), self._environment, self._console)
        self._children.append(child)
        if status := await child.run_once():
            raise CannotStartError(
                f"Slipway could not be prepared (status {status}); the lines above say why."
            )
        save_fingerprint()

    async def _print_when_ready(self) -> None:
        missing = await self._wait_until_ready()
        took = time.monotonic() - self._began
        if missing:
            self._console.note(f"Not ready after {took:.0f} s: {missing}. The lines above may say why.")
        self._console.block(render_welcome(took))

    async def _wait_until_ready(self) -> str:
        """Wait for /readyz; return the failed checks after the timeout, or an empty text."""
        url = f"http://127.0.0.1:{settings.ENV.port}/readyz"
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        missing = "the web server does not answer"
        while time.monotonic() < deadline:
            ready, missing = await asyncio.to_thread(_get_readiness, url)
            if ready:
                return ""
            await asyncio.sleep(POLL_SECONDS)
        return missing

    def _run_program(self, program: Program) -> ChildProcess:
        child = ChildProcess(program, self._environment, self._console)
        self._children.append(child)
        task = asyncio.create_task(child.keep_running(), name=program.name)
        task.add_done_callback(self._handle_failed_program)
        self._tasks.append(task)
        return child

    def _handle_failed_program(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failure = CannotStartError(f"{task.get_name()} cannot be started: {problem}")
            self._end_request.set()

    async def _wait_until(self, question: Callable[[], Awaitable[bool]], name: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not await question():
            if time.monotonic() > deadline:
                raise CannotStartError(
                    f"{name} did not answer within {seconds:g} s; the lines above say why."
                )
            await asyncio.sleep(POLL_SECONDS / 4)

    async def _is_broker_ready(self) -> bool:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(valkey.get_socket_path(settings.HOME))
            writer.write(b"PING\r\n")
            answer = await reader.readline()
            writer.close()
            # While it reads its file back it answers LOADING.
            return answer.startswith(b"+PONG")
        return False

    def _request_end(self) -> None:
        if self._end_request.is_set():
            for child in self._children:
                child.kill()
            return
        self._console.note("Ending; press Ctrl-C again to end at once")
        self._end_request.set()

    async def _stop_all(self) -> None:
        """Stop the users of broker and sandbox first, then broker and sandbox."""
        below = {"valkey", "sandbox"}
        if self._liveness is not None:
            self._liveness.cancel()
        for last in (False, True):
            wave = [child for child in self._children if (child.program.name in below) is last]
            await asyncio.gather(*(child.stop() for child in wave))
        if self._tasks:
            # Their last lines may not be printed yet.
            await asyncio.wait(self._tasks, timeout=0.5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _get_readiness(url: str) -> tuple[bool, str]:
    try:
        with urlopen(url, timeout=5):  # noqa: S310 - the address is our own
            return True, ""
    except HTTPError as exc:
        missing = json.loads(exc.read() or b"{}").get("missing", [])
        return False, "; ".join(missing) or f"status {exc.code}"
    except (URLError, OSError):
        return False, "the web server does not answer"


def main() -> int:
    """Start Slipway; return the exit status."""
    console = Console()
    try:
        if not settings.EMBEDDED:
            raise CannotStartError("SLIPWAY_MODE=production runs one process each: see deploy/compose.yaml.")
        with lock_state_folder(Path(settings.HOME)):
            require_free_port(settings.ENV.port, "PORT")
            require_free_port(settings.SANDBOX_PORT, "SLIPWAY_SANDBOX_PORT")
            return asyncio.run(Supervisor(console).run())
    except (CannotStartError, valkey.BrokerNotInstalledError, valkey.UnsafeFolderError) as exc:
        console.note(str(exc))
        return 1
