"""Local processes of containers."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from sandbox.images import COMMAND_VARIABLE

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER = Path(__file__).resolve().parent / "launcher.py"
MAX_UNREAD_LINES = 10_000
MAX_LAST_LINES = 50
MAX_LINE_BYTES = 256 * 1024


def get_default_command() -> tuple[str, ...]:
    """Return the command of a delegate's container: this checkout's agent, unless a variable overrides it."""
    command = os.environ.get(COMMAND_VARIABLE, "")
    return tuple(shlex.split(command)) or (sys.executable, "-m", "delegates.agent")


@dataclass(eq=False)
class ContainerProcess:
    """One running process; the id of its process group is its `pid`."""

    container_arn: str
    task_arn: str
    home: Path
    process: "subprocess.Popen[bytes]"
    # Lines not yet read, with their times in milliseconds.
    unread: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=MAX_UNREAD_LINES))
    last: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LAST_LINES))
    # When it is killed, by the monotonic clock, should it not end by itself.
    kill_at: float | None = None
    credentials: Any = None
    reader: Thread | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def exit_code(self) -> int | None:
        """Return the exit code, or None while it runs; the rest of its process group is killed."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        # Not reaped yet, so its process group id cannot be reused.
        if self.process.returncode is None and os.waitid(os.P_PID, self.pid, options) is None:
            return None
        self._signal(signal.SIGKILL)
        code = self.process.wait()
        if self.reader is not None:
            self.reader.join(1)
        return code if code >= 0 else 128 - code

    def terminate(self, patience: float) -> None:
        """Terminate the process; kill it after that many seconds."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + patience
            self._signal(signal.SIGTERM)

    @property
    def is_overdue(self) -> bool:
        return self.kill_at is not None and time.monotonic() >= self.kill_at

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def pop_lines(self) -> list[tuple[int, str]]:
        lines = []
        while self.unread:
            lines.append(self.unread.popleft())
        return lines

    def read(self) -> None:
        """Buffer its output until it closes its output."""
        output = self.process.stdout
        while output is not None and (line := output.readline(MAX_LINE_BYTES)):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            self.last.append(text)
            self.unread.append((int(time.time() * 1000), text))

    def to_wire(self) -> dict[str, Any]:
        return {
            "task": self.task_arn,
            "container": self.container_arn,
            "pid": self.pid,
            "home": str(self.home),
            "last_lines": list(self.last),
        }


class ContainerProcesses:
    """All that run now, by container. Used under the account's lock."""

    def __init__(self) -> None:
        self.url = ""
        self.command = get_default_command()
        self.running: dict[str, ContainerProcess] = {}
        self.folder: Path | None = None
        self._is_temporary = False

    def open(self, url: str, command: Sequence[str], folder: Path | None) -> None:
        """Start to accept programs, with the sandbox's URL, their command and the folder of their homes."""
        self.url, self.command = url, tuple(command)
        self._is_temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="slipway-containers-"))
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(
        self, container_arn: str, *, task_arn: str, environment: Mapping[str, str], home: Path
    ) -> ContainerProcess:
        """Start the command with exactly this environment."""
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", str(LAUNCHER), *self.command],
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        program = ContainerProcess(container_arn=container_arn, task_arn=task_arn, home=home, process=process)
        program.reader = Thread(target=program.read, daemon=True)
        program.reader.start()
        self.running[container_arn] = program
        return program

    def home_of(self, container_arn: str) -> Path:
        """Return the folder of a container, the same after a restart of the sandbox."""
        if self.folder is None:
            raise RuntimeError("programs are started once the sandbox listens")
        return self.folder / container_arn.rpartition("/")[2]

    def of_task(self, task_arn: str) -> list[ContainerProcess]:
        return [p for p in self.running.values() if p.task_arn == task_arn]

    def forget(self, program: ContainerProcess) -> None:
        """Drop a program that has ended, its pipes and its folder."""
        self.running.pop(program.container_arn, None)
        for pipe in (program.process.stdin, program.process.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(program.home, ignore_errors=True)

    def end_all(self, *, keeping_homes: bool = False) -> None:
        """Kill everything at once, as a machine does that is switched off."""
        for program in self.running.values():
            program.kill()
        for program in list(self.running.values()):
            program.process.wait()
            if not keeping_homes:
                self.forget(program)
        self.running.clear()

    def close(self) -> None:
        """End with the sandbox; the home folders stay if the account is stored."""
        self.end_all(keeping_homes=True)
        if self._is_temporary and self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


# moto creates its back ends itself, per account and region, so shared state needs an import.
CONTAINER_PROCESSES = ContainerProcesses()
