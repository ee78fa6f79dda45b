"""Starts everything that an embedded Slipway is made of, keeps it running, and ends it in order."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from django.conf import settings

from ops import fingerprint, programs, valkey
from ops.child import Child
from ops.console import Console
from ops.home import CannotStartError, locked, require_free
from ops.liveness import restart_when_silent
from ops.programs import Program
from ops.welcome import welcome

READY_SECONDS = 90.0
LOOK_SECONDS = 0.1


class Supervisor:
    """The one process that a person starts; all others are its children."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._environment = programs.environment()
        self._children: list[Child] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._liveness: asyncio.Task[None] | None = None
        self._asked_to_end = asyncio.Event()
        self._failure: BaseException | None = None
        self._began = time.monotonic()

    async def run(self) -> int:
        """Run until a signal ends it; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end_requested)
        start = asyncio.create_task(self._start())
        asked = asyncio.create_task(self._asked_to_end.wait())
        try:
            await asyncio.wait({start, asked}, return_when=asyncio.FIRST_COMPLETED)
            if start.done():
                # Raises what kept it from starting.
                start.result()
                await asked
            if self._failure is not None:
                raise self._failure
            return 0
        finally:
            start.cancel()
            asked.cancel()
            await self._stop_all()

    async def _start(self) -> None:
        valkey.prepare_folders(settings.HOME)
        if broker := programs.broker():
            self._keep(broker)
            await self._until(self._broker_answers, "valkey", 15)
        self._keep(programs.sandbox())
        await self._prepare()
        web = self._keep(programs.web())
        self._liveness = asyncio.create_task(restart_when_silent(web, settings.ENV.port, self._console))
        for program in (programs.worker(), programs.beat()):
            self._keep(program)
        await self._tell_when_ready()

    async def _prepare(self) -> None:
        """Bring database, static files and demo up to date, where anything changed since the last time."""
        current = fingerprint.current()
        if fingerprint.kept() == current:
            return
        child = Child(programs.preparation(), self._environment, self._console)
        self._children.append(child)
        if status := await child.run_once():
            raise CannotStartError(
                f"Slipway could not be prepared (status {status}); the lines above say why."
            )
        fingerprint.keep()

    async def _tell_when_ready(self) -> None:
        missing = await self._until_ready()
        took = time.monotonic() - self._began
        if missing:
            self._console.line(
                "slipway", f"Not ready after {took:.0f} s: {missing}. The lines above may say why."
            )
        self._console.block(welcome(took))

    async def _until_ready(self) -> str:
        """Wait for /readyz; return what it misses in the end, or nothing."""
        url = f"http://127.0.0.1:{settings.ENV.port}/readyz"
        deadline = time.monotonic() + READY_SECONDS
        missing = "the web server does not answer"
        while time.monotonic() < deadline:
            ready, missing = await asyncio.to_thread(_readiness, url)
            if ready:
                return ""
            await asyncio.sleep(LOOK_SECONDS)
        return missing

    def _keep(self, program: Program) -> Child:
        child = Child(program, self._environment, self._console)
        self._children.append(child)
        task = asyncio.create_task(child.keep_running(), name=program.name)
        task.add_done_callback(self._given_up)
        self._tasks.append(task)
        return child

    def _given_up(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._failure = CannotStartError(f"{task.get_name()} cannot be started: {problem}")
            self._asked_to_end.set()

    async def _until(self, question: Callable[[], Awaitable[bool]], name: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not await question():
            if time.monotonic() > deadline:
                raise CannotStartError(
                    f"{name} did not answer within {seconds:g} s; the lines above say why."
                )
            await asyncio.sleep(LOOK_SECONDS / 4)

    async def _broker_answers(self) -> bool:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(valkey.socket_path(settings.HOME))
            writer.write(b"PING\r\n")
            answer = await reader.readline()
            writer.close()
            # While it reads its file back it answers LOADING.
            return answer.startswith(b"+PONG")
        return False

    def _end_requested(self) -> None:
        if self._asked_to_end.is_set():
            for child in self._children:
                child.kill()
            return
        self._console.line("slipway", "Ending; press Ctrl-C again to end at once")
        self._asked_to_end.set()

    async def _stop_all(self) -> None:
        """Those who use the broker and the sandbox first, the broker and the sandbox last."""
        below = {"valkey", "sandbox"}
        if self._liveness is not None:
            self._liveness.cancel()
        for last in (False, True):
            wave = [child for child in self._children if (child.program.name in below) is last]
            await asyncio.gather(*(child.stop() for child in wave))
        if self._tasks:
            # Their last lines are still on the way.
            await asyncio.wait(self._tasks, timeout=0.5)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _readiness(url: str) -> tuple[bool, str]:
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
            raise CannotStartError("SLIPWAY_MODE=production runs one process each: see compose.yaml.")
        with locked(Path(settings.HOME)):
            require_free(settings.ENV.port, "PORT")
            require_free(settings.SANDBOX_PORT, "SLIPWAY_SANDBOX_PORT")
            return asyncio.run(Supervisor(console).run())
    except (CannotStartError, valkey.NoServerError, valkey.UnsafeFolderError) as exc:
        console.line("slipway", str(exc))
        return 1
