"""Child process of the supervisor: output forwarding, restarts with backoff, death signal."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

from django.conf import settings

from ops.supervision.console import Console, LineSplitter
from ops.supervision.programs import Program

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: the child may only make the call.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

INITIAL_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 15.0
# A program that ran this long was well: its next death starts with the shortest pause again.
HEALTHY_SECONDS = 30.0


def build_death_signal_hook(parent: int, number: signal.Signals) -> Callable[[], None]:
    """Return a hook for the forked child that makes the kernel end it with `parent`."""

    def arm() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, number)
        # The parent may have died between the fork and the line above.
        if os.getppid() != parent:
            os._exit(1)

    return arm


class ChildProcess:
    """Child process that restarts until it is stopped."""

    def __init__(self, program: Program, environment: Mapping[str, str], console: Console) -> None:
        self.program = program
        self._environment = {**environment, **program.variables}
        self._console = console
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def run_once(self) -> int:
        """Run the program to its end and return its exit status (negative: the signal that ended it)."""
        # A pipe of our own: waiting for the end of a program must not mean waiting for all that it forked.
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                cwd=settings.ROOT,
                env=self._environment,
                # A group of its own: Ctrl-C reaches the supervisor alone, and all that it forks can be ended.
                start_new_session=True,
                preexec_fn=build_death_signal_hook(os.getpid(), self.program.on_parent_death),
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        output = asyncio.create_task(self._forward_output(reading))
        status = await self._process.wait()
        self._signal_group(signal.SIGKILL)
        await output
        return status

    async def keep_running(self) -> None:
        """Run the program again and again, with growing pauses between failures.

        Raises `OSError` for a program that cannot be started at all.
        """
        pause = INITIAL_BACKOFF_SECONDS
        while not self._stopping:
            started = time.monotonic()
            try:
                end = self._describe_exit(await self.run_once())
            except OSError as exc:
                # It ran before, so the machine lacks memory or processes for the moment.
                if self._process is None:
                    raise
                end = f"{self.program.name} could not be started ({exc.strerror})"
            if self._stopping:
                return
            if time.monotonic() - started > HEALTHY_SECONDS:
                pause = INITIAL_BACKOFF_SECONDS
            self._console.note(f"{end}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_BACKOFF_SECONDS)

    async def stop(self) -> None:
        """Stop the program, and kill it after a timeout."""
        self._stopping = True
        await self.end()

    async def end(self) -> None:
        """End the program as `stop` does; `keep_running` starts it again."""
        if (process := self._process) is None or process.returncode is not None:
            return
        process.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.program.stop_seconds):
                await process.wait()
        self._kill_group()

    def write_traceback(self) -> None:
        """Make the program write its thread stacks; a program that cannot do so ends."""
        if self.pid:
            os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        """End the program and all it started, now."""
        self._stopping = True
        self._kill_group()

    @property
    def pid(self) -> int:
        """Return the number of the process while the program runs, else 0."""
        is_running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and is_running else 0

    def _kill_group(self) -> None:
        # After its end its id may belong to another process; its children are gone by then.
        if self.pid:
            self._signal_group(signal.SIGKILL)

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _forward_output(self, reading: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
        )
        splitter = LineSplitter()
        while chunk := await stream.read(16 * 1024):
            self._write(splitter.feed(chunk))
        self._write(splitter.end())
        transport.close()

    def _write(self, lines: list[str]) -> None:
        for line in lines:
            self._console.line(self.program.name, line)

    def _describe_exit(self, status: int) -> str:
        if status >= 0:
            return f"{self.program.name} ended with status {status}"
        return f"{self.program.name} was ended by {signal.Signals(-status).name}"
