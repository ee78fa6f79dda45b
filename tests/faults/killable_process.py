"""One process of an installation, which a test can kill and start again."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ops.supervision.child_process import build_death_signal_hook
from tests.fixtures.processes import ROOT


class Part:
    """A command in a process group of its own; all that it prints goes to one file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str], folder: Path
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self.environment = dict(environment)
        # The checkout that it runs; another one from its next start on.
        self.code = ROOT
        self._process: subprocess.Popen[bytes] | None = None
        # Time of its last start, of the monotonic clock.
        self.started_at = 0.0
        # Exit statuses of processes that ended before they were killed or asked to end.
        self.early_ends: list[int] = []

    def start(self) -> None:
        self.started_at = time.monotonic()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.code,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=build_death_signal_hook(os.getpid(), signal.SIGKILL),
            )

    def kill(self) -> None:
        """End it and all that it forked as a power cut does."""
        if self._process is not None:
            self._record_early_end(self._process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def end(self, within: float) -> float:
        """Ask it to end and give back how long it took; whoever is slower than `within` fails."""
        began = time.monotonic()
        if self._process is not None:
            self._record_early_end(self._process)
            self._process.terminate()
            self._process.wait(within)
            self._process = None
        return time.monotonic() - began

    def _record_early_end(self, process: "subprocess.Popen[bytes]") -> None:
        if (status := process.poll()) is not None:
            self.early_ends.append(status)

    def die_and_come_back(self) -> None:
        """Kill the process and start it again, as a supervisor does."""
        self.kill()
        self.start()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0
