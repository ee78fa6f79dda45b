"""Installation of a soak: that of the fault tests, with delegates behind networks that can be cut."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks.soak.clocks import build_clock_library, create_clock
from tests.faults.installation import Installation, installed
from tests.faults.killable_process import Part
from tests.fixtures.processes import ROOT, wait_until
from tests.stories.delegates.proxy import Proxy

AGENTS: Final = 2
TAG: Final = "soak"
PROJECT: Final = {"org": "default", "project": "demo"}
DELEGATED: Final = "delegated"
SQL_PATIENCE: Final = 180.0
# Messages of ops/supervision/liveness.py.
_WEB_RESTART: Final = re.compile(r"\bended with status\b|\bwas ended by\b|\bdid not answer /healthz\b")
# Agents connect without a proxy for TLS in front.
ORIGIN: Final = "http://127.0.0.1"


@dataclass(frozen=True)
class Site:
    """An installation, its delegates with the network of each, and the clocks of server and delegates."""

    installation: Installation
    agents: tuple[Part, ...]
    networks: tuple[Proxy, ...]
    clocks: tuple[Path, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the processes of Slipway: web, worker, beat, delegate."""
        return (*self.installation.parts, *self.agents)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """Return rows of the database, which may be away for a while."""
        rows: list[list[tuple[Any, ...]]] = []

        def read() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                rows.append(self.installation.rows(statement))
            return bool(rows)

        wait_until(read, "an answer of the database", SQL_PATIENCE)
        return rows[0]

    def post(self, path: str, body: object) -> dict[str, Any]:
        """Create a resource while nothing is faulty."""
        answer = self.installation.request("POST", f"/api/v1/{path}", body)
        if answer.status not in (200, 201, 202):
            raise RuntimeError(f"{path} was answered {answer.status}: {answer.body[:500]!r}")
        return dict(answer.json())


def list_early_ends(site: Site) -> list[str]:
    """Return the processes that ended by themselves, which no fault makes them do."""
    ends = [
        f"{part.name} ended by itself with status {status}"
        for part in site.parts
        for status in part.early_ends
    ]
    ends += [f"{part.name} does not run any more" for part in site.parts if not part.is_alive]
    # The supervisor of a web server starts it again.
    for web in site.installation.webs:
        lines = web.log.read_text(errors="replace").splitlines()
        ends += [f"{web.name}: {line[:300]}" for line in lines if _WEB_RESTART.search(line)]
    return ends


@contextmanager
def start_site(folder: Path) -> Iterator[Site]:
    """Run an installation with two delegates until the block ends."""
    library = build_clock_library(folder)
    names = ("server", *(f"soak-{number}" for number in range(1, AGENTS + 1)))
    clocks = {name: create_clock(folder, name, library) for name in names}
    with ExitStack() as stack:
        installation = stack.enter_context(
            installed(folder, concurrency=2, **{"PUBLIC_URL": ORIGIN, **clocks["server"].variables})
        )
        ports = [int(address.rpartition(":")[2]) for address in installation.addresses]
        networks = tuple(Proxy(ports[number % len(ports)]) for number in range(AGENTS))
        for network in networks:
            stack.callback(network.close)
        paths = tuple(clock.path for clock in clocks.values()) if library else ()
        site = Site(installation, (), networks, paths)
        token = site.post("delegate-tokens", {"name": "soak"})["token"]
        account = site.query("SELECT account_id FROM delegates_accountid")[0][0]
        agents = tuple(
            _create_agent(folder, name, network.url, token, account, clocks[name].variables)
            for name, network in zip(names[1:], networks, strict=True)
        )
        for agent in agents:
            stack.callback(agent.kill)
            agent.start()
        connected = "SELECT 1 FROM delegates_delegateinstance WHERE connection = 'WEBSOCKET'"
        wait_until(lambda: len(site.query(connected)) == AGENTS, "the connection of the delegates", 60)
        yield replace(site, agents=agents)


def _create_agent(
    folder: Path, name: str, url: str, token: str, account: str, variables: Mapping[str, str]
) -> Part:
    home = folder / name
    home.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        # As `ops/slipway-delegate` sets it.
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        "SLIPWAY_DELEGATE_HOME": str(home),
        "SLIPWAY_DELEGATE_PORT": "0",
        "HARNESS_ACCOUNT_ID": account,
        "HARNESS_TOKEN": token,
        "HARNESS_URL": url,
        "HARNESS_NAME": name,
        "HARNESS_TAGS": TAG,
        "AWS_ACCESS_KEY_ID": "AKIASANDBOX",
        "AWS_SECRET_ACCESS_KEY": "example-of-the-soak",
        **variables,
    }
    return Part(name, [sys.executable, "-m", "delegates.agent"], environment=environment, folder=home)
