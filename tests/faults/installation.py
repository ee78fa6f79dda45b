"""Slipway in production form: two web servers, two workers, beat, PostgreSQL, and Valkey over TCP."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

import psycopg
import redis

from ops.supervision.valkey import find_server
from sandbox.process import SandboxProcess, start_sandbox
from tests.faults.killable_process import Part
from tests.fixtures.processes import ROOT, wait_until
from tests.ports import free_port
from tests.postgres import Postgres, postgres
from tests.secret_watch.marker import planted
from tests.wiring import production_environment

KEY = "slp_pat_a_key_for_the_faults"
PASSWORD = planted("a password for the faults")
NOBODY_ANSWERED = 0
POOL_SIZE = 4


@dataclass(frozen=True)
class Answer:
    """An answer of a web server; status 0 for no answer."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cookie(self) -> str:
        """Return the cookies for later requests."""
        cookies = [SimpleCookie(text) for text in self.headers.get_all("Set-Cookie", [])]
        return "; ".join(f"{name}={morsel.value}" for cookie in cookies for name, morsel in cookie.items())


@dataclass(frozen=True)
class Installation:
    """All processes of an installation; each may be killed."""

    folder: Path
    concurrency: int
    database: Postgres
    broker: Part
    broker_url: str
    sandbox: SandboxProcess
    webs: tuple[Part, Part]
    addresses: tuple[str, str]
    workers: tuple[Part, Part]
    beat: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        return (*self.webs, *self.workers, self.beat)

    def request(self, method: str, path: str, body: object = None, *, web: int = 0, **headers: str) -> Answer:
        """Ask one of the web servers as the proxy in front of it would."""
        request = Request(self.addresses[web] + path, method=method)
        request.add_header("X-Forwarded-Proto", "https")
        request.add_header("X-Api-Key", KEY)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        return _unredirected(request)

    def sign_in(self) -> Answer:
        """Sign the admin in as a browser does."""
        form = self.request("GET", "/sign-in/")
        token = SimpleCookie(form.headers["Set-Cookie"])["csrftoken"].value
        fields = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
        request = Request(f"{self.addresses[0]}/sign-in/", data=urlencode(fields).encode())
        request.add_header("X-Forwarded-Proto", "https")
        request.add_header("Cookie", f"csrftoken={token}")
        request.add_header("Referer", f"{self.addresses[0].replace('http:', 'https:')}/sign-in/")
        return _unredirected(request)

    def get(self, path: str) -> Any:
        """The JSON of a page of the API, from whichever web server answers."""
        for web in (0, 1):
            answer = self.request("GET", path, web=web)
            if answer.status == 200:
                return answer.json()
        raise AssertionError(f"{path} was answered {answer.status}: {answer.body[:500]!r}")

    def is_ready(self, web: int = 0) -> bool:
        return self.request("GET", "/readyz", web=web).status == 200

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a database query."""
        with psycopg.connect(self.database.url) as connection:
            return connection.execute(query.encode()).fetchall()

    def flush_broker(self) -> None:
        """Take everything away that the broker holds, and the broker itself, and bring an empty one back."""
        with redis.Redis.from_url(self.broker_url) as client:
            client.flushall()
        self.broker.die_and_come_back()


class _StayHere(HTTPRedirectHandler):
    """A redirection is an answer like any other."""

    def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
        return None


_opener = build_opener(_StayHere)


def _unredirected(request: Request) -> Answer:
    try:
        with _opener.open(request, timeout=20) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.headers, refused.read())
    except (OSError, HTTPException):
        return Answer(NOBODY_ANSWERED, Message(), b"")


@contextmanager
def installed(folder: Path, *, concurrency: int = 2, **variables: str) -> Iterator[Installation]:
    """An installation that is ready, with the demo in it; what it printed stays in `folder`.

    `variables` are added to the environment of the processes of Slipway.
    """
    with ExitStack() as stack:
        database = stack.enter_context(postgres(folder))
        _make_database(database)
        sandbox = start_sandbox(paused=False, speed=20)
        stack.callback(sandbox.kill)
        broker_port, ports = free_port(), (free_port(), free_port())
        around = _environment(folder, database.url, broker_port, concurrency)
        environment = around | variables
        command = [find_server(), "--save", "", "--bind", "127.0.0.1", "--port", str(broker_port)]
        broker = Part("broker", [*command, "--dir", folder], environment=around, folder=folder)
        parts = [
            Part(name, [ROOT / "ops" / "role.sh", role], environment=environment | more, folder=folder)
            for name, role, more in (
                ("web 1", "web", {"PORT": str(ports[0])}),
                ("web 2", "web", {"PORT": str(ports[1])}),
                ("worker 1", "worker", {}),
                ("worker 2", "worker", {}),
                ("beat", "beat", {}),
            )
        ]
        for part in (broker, *parts):
            stack.callback(part.kill)
        broker.start()
        _prepare(environment, sandbox.url)
        for part in parts:
            part.start()
        installation = Installation(
            folder=folder,
            concurrency=concurrency,
            database=database,
            broker=broker,
            broker_url=f"redis://127.0.0.1:{broker_port}",
            sandbox=sandbox,
            webs=(parts[0], parts[1]),
            addresses=(f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"),
            workers=(parts[2], parts[3]),
            beat=parts[4],
        )
        for web in (0, 1):
            wait_until(lambda web=web: installation.is_ready(web), "being ready", 90)
        yield installation


def _environment(folder: Path, database_url: str, broker_port: int, concurrency: int) -> dict[str, str]:
    own_names = ("SLIPWAY_TESTS_HOME", "PORT")
    inherited = {name: value for name, value in os.environ.items() if name not in own_names}
    return {
        **inherited,
        **production_environment(),
        "DJANGO_SETTINGS_MODULE": "tests.secret_watch.settings",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOST": "127.0.0.1",
        "ALLOWED_HOSTS": "127.0.0.1",
        "DATABASE_URL": database_url,
        "REDIS_URL": f"redis://127.0.0.1:{broker_port}",
        "SLIPWAY_HOME": str(folder / "state"),
        "SLIPWAY_DATABASE_POOL_SIZE": str(POOL_SIZE),
        "SLIPWAY_WORKER_CONCURRENCY": str(concurrency),
        # The connector's endpoint is the sandbox.
        "SLIPWAY_ALLOW_AWS_ENDPOINTS": "true",
        "SLIPWAY_PRIVATE_NETWORKS": "127.0.0.1/32",
        "SLIPWAY_DEMO_API_KEY": KEY,
        "SLIPWAY_DEMO_PASSWORD": PASSWORD,
        "LOG_LEVEL": "WARNING",
    }


def _make_database(database: Postgres) -> None:
    with psycopg.connect(database.url, dbname="postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE slipway")


def _prepare(environment: Mapping[str, str], sandbox_url: str) -> None:
    """Migrations, static files and the demo, which only the embedded mode knows."""
    port = sandbox_url.rpartition(":")[2]
    embedded = {"SLIPWAY_MODE": "embedded", "SLIPWAY_SANDBOX_PORT": port}
    command = [sys.executable, "manage.py", "prepare"]
    process = subprocess.run(
        command, cwd=ROOT, env={**environment, **embedded}, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
