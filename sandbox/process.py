"""Client that starts a sandbox process and calls its control API, for tests and demos."""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parent.parent
LISTENING_PREFIX = "sandbox: listening on "


class SandboxDidNotStart(RuntimeError):
    """The process ended before it listened."""


@dataclass(frozen=True)
class SandboxProcess:
    """A running sandbox."""

    url: str
    process: "subprocess.Popen[str]"

    def control(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the control API and return its JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/sandbox/{path}", data=data, method=method)  # noqa: S310
        with urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)

    def advance(self, seconds: float) -> None:
        """Move the clock by hand; everything that falls into that time has happened on return."""
        self.control("POST", "clock", {"advance": seconds})

    def reset(self) -> None:
        self.control("POST", "reset", {})

    def fault(self, kind: str, **choices: Any) -> None:
        """Set a fault: `service`, `operation`, `count`, `seconds`, `as` (in a dict: it is a keyword)."""
        self.control("POST", "faults", {"kind": kind, **choices})

    def clear_faults(self) -> None:
        self.control("DELETE", "faults")

    def break_rules(self, *rules: str) -> None:
        """Break these rules of AWS, and no other, until the next reset."""
        self.control("POST", "broken-rules", {"rules": rules})

    def enforce_quotas(self) -> None:
        """Throttle calls beyond AWS's published quotas until the next reset."""
        self.control("POST", "quotas", {"enforced": True})

    def journal(self, after: int = 0) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.control("GET", f"journal?after={after}")["entries"]
        return entries

    def last_number(self) -> int:
        """Return the number of the last call that was carried out; the journal shows a page at a time."""
        return int(self.control("GET", "health")["calls"])

    def seed(self) -> dict[str, Any]:
        seed: dict[str, Any] = self.control("GET", "seed")
        return seed

    def programs(self) -> list[dict[str, Any]]:
        """Return the containers that are real processes: task, container, pid (of the group), home, last
        lines.
        """
        programs: list[dict[str, Any]] = self.control("GET", "programs")["programs"]
        return programs

    def stop(self) -> None:
        """End the process as SIGTERM does, saving its state."""
        self.process.terminate()
        self._end()

    def kill(self) -> None:
        """End the process as a power cut does."""
        self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.wait(timeout=20)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def start_sandbox(
    port: int = 0,
    *,
    paused: bool = True,
    state: Path | None = None,
    speed: float = 1.0,
    delegate_command: Sequence[str] = (),
) -> SandboxProcess:
    """Start a sandbox and wait until it listens. It ends with this process, if not stopped before."""
    command = [
        sys.executable,
        "-m",
        "sandbox",
        "--port",
        str(port),
        "--speed",
        str(speed),
        "--ends-with-stdin",
    ]
    command += ["--paused"] if paused else []
    command += ["--state", str(state)] if state else []
    command += ["--delegate-command", shlex.join(delegate_command)] if delegate_command else []
    # In a group of its own: Ctrl-C goes to the caller, which may still need the sandbox.
    process = subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )
    if process.stdout is None:
        raise SandboxDidNotStart("no output to read the address from")
    for line in process.stdout:
        if line.startswith(LISTENING_PREFIX):
            return SandboxProcess(url=line.removeprefix(LISTENING_PREFIX).strip(), process=process)
    raise SandboxDidNotStart(f"the sandbox ended with code {process.wait(timeout=10)}")
