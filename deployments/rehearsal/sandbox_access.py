"""Private sandbox of one rehearsal: its process, its control API, and the only access that steps have."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.errors import AwsError, NotSent, Throttled, Unanswered

LISTENING_PREFIX: Final = "sandbox: listening on "
CONTROL_SECONDS: Final = 60
# No variable with credentials, regions or proxies of this process reaches the sandbox.
KEPT_VARIABLES: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV")
_LOOPBACK_ADDRESS = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}\Z")
_KEY: Final = AccessKey("REHEARSAL", "rehearsal")
# Proxies of the environment never see these requests.
_opener = build_opener(ProxyHandler({}))


class SandboxLost(Exception):
    """Error raised when the sandbox of a rehearsal no longer answers; nobody knows the rehearsal's end."""


class NotASandbox(ValueError):
    """Error raised for an address that is not the loopback address of a private sandbox."""


class SnapshotRefused(Exception):
    """Error raised when the sandbox cannot be filled; the text names the resource."""


def is_sandbox_installed() -> bool:
    """Return whether this installation has the sandbox with its packages, as the image and `make run` do."""
    return all(find_spec(name) is not None for name in ("sandbox", "moto", "flask"))


def open_sandbox_caller(url: str, region: str) -> "SandboxCaller":
    """Return the AWS access of a rehearsed step. Raises `NotASandbox` for any other address."""
    if not _LOOPBACK_ADDRESS.match(url):
        raise NotASandbox(f"A rehearsal calls its own sandbox only, not {url or 'AWS'}.")
    return SandboxCaller(BotoCaller(_KEY, region, url))


@dataclass(frozen=True)
class SandboxCaller:
    """Caller of a private sandbox."""

    caller: BotoCaller

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the sandbox. Raises `AwsError`, and `SandboxLost` if there is none."""
        try:
            return self.caller.call(service, operation, params)
        except (NotSent, Throttled, Unanswered) as error:
            raise SandboxLost(error.display_message) from error
        except AwsError as error:
            if error.is_retryable:
                raise SandboxLost(error.display_message) from error
            raise


@dataclass(frozen=True)
class RehearsalSandbox:
    """Running sandbox of one rehearsal; its time passes only by `advance`."""

    url: str

    def fill(self, document: Mapping[str, Any]) -> list[str]:
        """Fill the account; return the services that did not become steady. Raises `SnapshotRefused`."""
        return [str(name) for name in self._control("snapshot", document)["unsteady"]]

    def deny(self, service: str, operation: str) -> None:
        """Refuse an operation as a policy does."""
        self._control("faults", {"kind": "denied", "service": service, "operation": operation})

    def advance(self, seconds: float) -> datetime:
        """Let time pass, and return the time of the sandbox."""
        return datetime.fromisoformat(self._control("clock", {"advance": seconds})["now"])

    def _control(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        data = json.dumps(body, default=str).encode()
        try:
            with _opener.open(f"{self.url}/sandbox/{path}", data, timeout=CONTROL_SECONDS) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except HTTPError as error:
            with error:
                raise SnapshotRefused(str(json.load(error).get("error"))) from error
        except (URLError, OSError, ValueError) as error:
            raise SandboxLost(str(error)) from error


@contextmanager
def start_sandbox() -> Iterator[RehearsalSandbox]:
    """Run a sandbox for the block; it ends with this process too. Raises `SandboxLost`."""
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--paused", "--ends-with-stdin"]
    process = subprocess.Popen(  # noqa: S603 - the arguments are constants
        command,
        cwd=Path(__file__).resolve().parents[2],
        env=_build_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield RehearsalSandbox(_read_address(process))
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _build_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    # Containers of the delegate's image are not started either.
    return {**kept, "SLIPWAY_SANDBOX_DELEGATE_COMMAND": "off"}


def _read_address(process: "subprocess.Popen[str]") -> str:
    for line in process.stdout or ():
        if line.startswith(LISTENING_PREFIX):
            url = line.removeprefix(LISTENING_PREFIX).strip()
            if _LOOPBACK_ADDRESS.match(url):
                return url
            raise NotASandbox(f"The sandbox listens on {url}.")
    raise SandboxLost(f"The sandbox ended with code {process.wait()} before it listened.")
