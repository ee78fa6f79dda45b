"""A process and all that it starts: its output as lines while it runs, its end at the latest when told."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from delegates.agent.isolation import Workspace, end
from delegates.agent.work import Held
from guards.masks import Mask
from guards.output import Output

LOOK_SECONDS, KILL_SECONDS = 0.1, 3.0


class Listener(Protocol):
    """Who is told what a process prints, by whole lines."""

    @property
    def mask(self) -> Mask: ...
    def tell(self, texts: Sequence[str], level: str = "INFO") -> None: ...


@dataclass(frozen=True)
class Stop:
    """How a process is asked to end, and how long it has for that before it is killed."""

    by: signal.Signals = signal.SIGTERM
    seconds: float = KILL_SECONDS


AT_ONCE = Stop()


@dataclass(frozen=True)
class Ended:
    """How a process ended; a signal is 128 and its number, as shells have it."""

    exit_code: int
    was_stopped: bool = False
    timed_out: bool = False


@dataclass(frozen=True)
class Program:
    """A command to run in a folder of a task's workspace."""

    workspace: Workspace
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)


def run_until(
    held: Held,
    around: Listener,
    program: Program,
    stop: Stop = AT_ONCE,
) -> Ended:
    """Run to the end, to the task's time-out or until it is stopped. Raises as `Workspace.start` does."""
    with program.workspace.start(program.command, program.environment, cwd=program.folder) as process:
        group = _Group(process, around, stop)
        try:
            stopped, timed_out = group.watch(held)
        finally:
            # Children in the background would live on.
            end(process)
        group.tell_rest()
    code = process.returncode
    return Ended(128 - code if code < 0 else code, stopped, timed_out)


class _Group:
    """The processes of one script, and the pipe that they all write to."""

    def __init__(self, process: "subprocess.Popen[bytes]", around: Listener, stop: Stop) -> None:
        self._process, self._around, self._stop = process, around, stop
        self._output = Output(around.mask)
        self._pipe = process.stdout.fileno() if process.stdout else -1
        os.set_blocking(self._pipe, False)

    def watch(self, held: Held) -> tuple[bool, bool]:
        """Pass on lines until the script ends; gives back whether it was stopped, and if for its time."""
        kill_at, stopped = 0.0, False
        while self._process.poll() is None:
            if data := self._read():
                self._around.tell(self._output.feed(data))
            elif kill_at:
                time.sleep(LOOK_SECONDS)
            else:
                held.stopped.wait(LOOK_SECONDS)
            if not kill_at and (held.stopped.is_set() or held.seconds_left <= 0):
                stopped, kill_at = held.stopped.is_set(), time.monotonic() + self._stop.seconds
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(self._stop.by)
            if kill_at and time.monotonic() > kill_at:
                end(self._process)
        return stopped, bool(kill_at) and not stopped

    def tell_rest(self) -> None:
        while data := self._read():
            self._around.tell(self._output.feed(data))
        self._around.tell(self._output.end())

    def _read(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self._pipe, 65_536)
        return b""
