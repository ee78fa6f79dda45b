"""A complete Slipway, started like `make run` in a separate folder, for measurements from outside."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0


class NotReady(RuntimeError):
    """The installation did not start in time."""


@dataclass(frozen=True)
class Installation:
    """Web server, worker, beat, broker, database and pretend AWS, all running."""

    url: str
    sandbox_url: str
    token: str
    home: Path

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the REST API and return its JSON."""
        return _request_json(f"{self.url}/api/v1/{path}", method, body, {"X-Api-Key": self.token})

    def control(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the control API of the sandbox and return its JSON."""
        return _request_json(f"{self.sandbox_url}/sandbox/{path}", method, body, {})


def _request_json(url: str, method: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Any:
    data = None if body is None else json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", **headers}
    with urlopen(Request(url, data=data, method=method, headers=all_headers), timeout=60) as answer:
        return json.load(answer)


@contextlib.contextmanager
def start_installation() -> Iterator[Installation]:
    """Run Slipway until the block ends. Raises `NotReady` when it does not start."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        home, port, sandbox_port = Path(folder) / "h", free_port(), free_port()
        token = f"slp_pat_{secrets.token_urlsafe(32)}"
        variables = {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": "",
            "REDIS_URL": "",
            "SLIPWAY_MODE": "embedded",
            "SLIPWAY_HOME": str(home),
            "PORT": str(port),
            "SLIPWAY_SANDBOX_PORT": str(sandbox_port),
            "SLIPWAY_DEMO_API_KEY": token,
            # The measurements ask more often than people.
            "SLIPWAY_API_REQUESTS_PER_MINUTE": "10000000",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "ops", "--ends-with-parent"],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_ready(url, process)
            yield Installation(url, f"http://127.0.0.1:{sandbox_port}", token, home)
        finally:
            process.terminate()
            process.wait()


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotReady(f"it ended with status {process.returncode}")
        with contextlib.suppress(URLError, OSError), urlopen(f"{url}/readyz", timeout=5):
            return
        time.sleep(0.2)
    raise NotReady(f"it was not ready after {START_SECONDS:g} s")
