"""A Slipway of its own for the fuzzing, with its demo, and a service account of each role that asks."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.fixtures.processes import running, wait_until
from tests.ports import free_port

# Each role asks where it would be given: the demo's project, or everywhere.
ROLES = {
    "viewer": "account/default/demo",
    "pipeline_executor": "account/default/demo",
    "account_admin": "account",
}
_ADMIN_KEY = "slp_pat_fuzzing_of_an_installation_that_is_thrown_away"
_START_SECONDS = 120


@dataclass(frozen=True)
class Asker:
    """A service account, its API key, and its rows that requests must not remove."""

    role: str
    token: str
    addresses: tuple[str, ...]


class Installation:
    """A running Slipway, as its administrator reaches it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create something as the administrator, and return its document."""
        headers = {"x-api-key": _ADMIN_KEY, "Content-Type": "application/json"}
        request = Request(f"{self.url}/api/v1/{path}", json.dumps(body).encode(), headers)
        with urlopen(request) as answer:
            return dict(json.load(answer))

    def asker(self, role: str) -> Asker:
        """Make a service account of a built-in role, with a key."""
        scope = ROLES[role]
        account = self.post("service-accounts", {"name": f"Fuzzing as {role}", "scope": scope})
        principal = {"type": "service_account", "id": account["id"]}
        assignment = self.post("role-assignments", {"principal": principal, "role": role, "scope": scope})
        key = self.post("api-keys", {"service_account": account["id"], "name": "fuzzing"})
        own = (
            f"/api/v1/service-accounts/{account['id']}",
            f"/api/v1/role-assignments/{assignment['id']}",
            f"/api/v1/api-keys/{key['id']}",
            f"/api/v1/api-keys/{key['id']}/rotate",
            "/api/v1/orgs/default/archive",
            "/api/v1/orgs/default/projects/demo/archive",
        )
        return Asker(role, key["key"], own)

    def is_key_valid(self, asker: Asker) -> bool:
        """Return whether the key of an asker is still accepted."""
        request = Request(f"{self.url}/api/v1/me", headers={"x-api-key": asker.token})
        with contextlib.suppress(URLError), urlopen(request) as answer:
            return bool(answer.status == 200)
        return False

    def operations(self) -> set[str]:
        """Return the operations of the description, as in "GET /api/v1/me"."""
        with urlopen(f"{self.url}/api/schema/?format=json") as answer:
            paths = json.load(answer)["paths"]
        return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}

    def is_ready(self) -> bool:
        """Return whether all parts have started."""
        with contextlib.suppress(URLError, OSError), urlopen(f"{self.url}/readyz") as answer:
            return bool(answer.status == 200)
        return False


@contextlib.contextmanager
def installed(folder: Path) -> Iterator[Installation]:
    """Start one with its state in `folder`, which holds its output too (`slipway.log`)."""
    port = free_port()
    environment = {
        **os.environ,
        "PORT": str(port),
        "SLIPWAY_HOME": str(folder / "home"),
        "SLIPWAY_DEMO_API_KEY": _ADMIN_KEY,
        # How fast one may ask has tests of its own.
        "SLIPWAY_API_REQUESTS_PER_MINUTE": "10000000",
    }
    # The shell leaves its place to it: signals reach it.
    command = f'exec "$0" -m ops >"{folder / "slipway.log"}" 2>&1'
    with running(["sh", "-c", command, sys.executable], environment):
        installation = Installation(f"http://127.0.0.1:{port}")
        wait_until(installation.is_ready, "the start of Slipway", _START_SECONDS)
        yield installation
