"""Servers that measurements start: broker, web servers, workers, and the database of PostgreSQL."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import redis
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection
from psycopg import sql

from ops.supervision.valkey import find_server
from rbac.models import User
from tests.fixtures.processes import _is_up, running, wait_until
from tests.ports import free_port
from web.http.sessions import SessionStore

TICKS = os.sysconf("SC_CLK_TCK")
SLIPWAY = "config.asgi:application"
UVICORN = ("--ws", "websockets-sansio", "--ws-per-message-deflate", "false", "--ws-max-size", "65536")
QUIET = ("--lifespan", "off", "--no-server-header", "--log-level", "warning", "--no-access-log")
KEPT_OPEN = ("--backlog", "4096", "--timeout-keep-alive", "125")
CELERY = ("-W", "ignore:You're running the worker with superuser privileges", "-m", "celery", "--quiet")


@dataclass(frozen=True)
class Server:
    """A web server of one process."""

    url: str
    pid: int

    @property
    def kibibytes(self) -> int:
        """Return its resident memory."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    @property
    def cpu_seconds(self) -> float:
        """Return its CPU time so far."""
        return read_cpu_seconds(self.pid)


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


@contextlib.contextmanager
def start_broker() -> Iterator[tuple[str, int]]:
    """Run a Valkey on a Unix socket until the block ends; its address and process id."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        path = f"{folder}/v.sock"
        server = [str(find_server()), "--save", "", "--dir", folder, "--loglevel", "nothing", "--port", "0"]
        with running([*server, "--unixsocket", path], os.environ) as process:
            wait_until(lambda: _is_reachable(path), "Valkey's answer")
            yield f"unix://{path}", process.pid


def _is_reachable(path: str) -> bool:
    with contextlib.suppress(redis.RedisError), redis.Redis(unix_socket_path=path) as client:
        return bool(client.ping())
    return False


def build_channel_layers(broker_url: str) -> dict[str, Any]:
    """Return the setting CHANNEL_LAYERS for a broker on a Unix socket."""
    hosts = {"hosts": [f"{broker_url}?db=1"], "prefix": "slipway"}
    return {"default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": hosts}}


@contextlib.contextmanager
def start_server(application: str, environment: Mapping[str, str], port: str = "") -> Iterator[Server]:
    """Run a web server of one process until the block ends, by default on a free port."""
    port = port or str(free_port())
    url = f"http://127.0.0.1:{port}"
    options = ("--port", port, *UVICORN, *QUIET, *KEPT_OPEN)
    with running(
        [sys.executable, "-m", "uvicorn", application, *options],
        {**environment, "PORT": port, "PUBLIC_URL": url},
    ) as process:
        wait_until(_is_up(url), "the web server's answer")
        yield Server(url, process.pid)


@contextlib.contextmanager
def start_worker(environment: Mapping[str, str], number: int) -> Iterator[int]:
    """Run a Celery worker of one process until the block ends; the process id of its parent."""
    command = [sys.executable, *CELERY, "-A", "config", "worker", "--concurrency", "1", "-n", f"w{number}@%h"]
    options = ["--without-mingle", "--without-gossip", "--loglevel", "ERROR"]
    with running([*command, *options], environment) as process:
        yield process.pid


@contextlib.contextmanager
def start_beat(environment: Mapping[str, str], folder: Path) -> Iterator[int]:
    """Run Celery's beat until the block ends."""
    command = [sys.executable, *CELERY, "-A", "config", "beat", "--loglevel", "ERROR", "--pidfile", ""]
    with running([*command, "--schedule", folder / "beat"], environment) as process:
        yield process.pid


def build_database_url() -> str:
    """Return the DATABASE_URL of this process's database."""
    database = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{database['NAME']}"
    return f"postgres://{quote(database['USER'])}@{database['HOST']}:{database['PORT']}/{database['NAME']}"


def create_database() -> None:
    """Create the database of the settings on PostgreSQL; SQLite creates its own."""
    database = settings.DATABASES["default"]
    if connection.vendor == "postgresql":
        address = {"host": database["HOST"], "port": database["PORT"], "user": database["USER"]}
        with psycopg.connect(**address, dbname="postgres", autocommit=True) as server:
            server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database["NAME"])))


def create_admin_session() -> str:
    """Sign the administrator of the demo in, and return the key of the session."""
    admin = User.objects.get(username="admin")
    session = SessionStore()
    session[SESSION_KEY] = str(admin.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = admin.get_session_auth_hash()
    session.create()
    return str(session.session_key)
