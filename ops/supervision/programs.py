"""Programs of an embedded Slipway: their commands and stop signals."""

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from ops.supervision import valkey


@dataclass(frozen=True)
class Program:
    """Process that the supervisor runs."""

    name: str
    command: tuple[str, ...]
    # Signal of the kernel when the supervisor is killed: only programs with files need time to close them.
    on_parent_death: signal.Signals = signal.SIGKILL
    stop_seconds: float = 4.0
    # Variables besides those of all programs.
    variables: Mapping[str, str] = field(default_factory=dict)


def build_environment() -> dict[str, str]:
    """Return the environment of every program: this process's environment with the resolved settings."""
    chosen = {
        "SLIPWAY_HOME": str(settings.HOME),
        "PORT": str(settings.ENV.port),
        "SLIPWAY_SANDBOX_PORT": str(settings.SANDBOX_PORT),
        "REDIS_URL": settings.ENV.redis_url or f"unix://{valkey.get_socket_path(settings.HOME)}",
        "PYTHONUNBUFFERED": "1",
    }
    return {**os.environ, **chosen}


def get_broker() -> Program | None:
    """Return the embedded Valkey, unless REDIS_URL names another broker."""
    if settings.ENV.redis_url:
        return None
    return Program(
        "valkey", tuple(valkey.build_server_command(settings.HOME)), on_parent_death=signal.SIGTERM
    )


def get_sandbox() -> Program:
    """Return the pretend AWS account."""
    options = ("--port", str(settings.SANDBOX_PORT), "--state", str(settings.HOME / "sandbox"))
    return Program(
        "sandbox",
        # The same as `manage.py sandbox`, without waiting for Django.
        _build_python_command("sandbox", *options, "--speed", f"{settings.SANDBOX_SPEED:g}"),
        on_parent_death=signal.SIGTERM,
    )


def get_preparation() -> Program:
    """Return the one-off program for migrations, static files and demo."""
    return Program("prepare", _build_manage_command("prepare"))


def get_web() -> Program:
    """Return the web server: pages, API and sockets."""
    return Program(
        "web",
        (
            # Static files are read in a thread and not in the loop, which is as it should be.
            *(sys.executable, "-W", "ignore:StreamingHttpResponse must consume synchronous iterators"),
            *("-m", "uvicorn", "config.asgi:application"),
            *("--host", "127.0.0.1", "--port", str(settings.ENV.port)),
            # Compression costs about 30 KiB for every open socket and saves nothing on short lines.
            *("--ws", "websockets-sansio", "--ws-per-message-deflate", "false", "--ws-max-size", "65536"),
            *("--lifespan", "on", "--no-server-header", "--log-level", "warning"),
            # Open sockets would delay the shutdown while viewers exist.
            *("--timeout-graceful-shutdown", "2"),
        ),
    )


def get_worker() -> Program:
    """Return the Celery worker.

    The checkout in its command line distinguishes it from other installations.
    """
    return Program(
        "worker",
        (
            *_build_celery_command("worker"),
            *("--loglevel", settings.ENV.log_level, "--concurrency", str(settings.ENV.worker_concurrency)),
            # These are messages among workers, each with a wait of a second that is useless here.
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        stop_seconds=6.0,
        variables=_create_metrics_folder() if settings.WORKER_METRICS_PORT else {},
    )


def _create_metrics_folder() -> dict[str, str]:
    """Empty the folder in which the children of the worker count, and return the variable that names it."""
    folder = settings.HOME / "worker-metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    return {"PROMETHEUS_MULTIPROC_DIR": str(folder)}


def get_beat() -> Program:
    """Return the clock that wakes the dispatcher."""
    return Program(
        "beat",
        (
            *_build_celery_command("beat"),
            *("--loglevel", settings.ENV.log_level, "--pidfile", ""),
        ),
    )


def _build_celery_command(command: str) -> tuple[str, ...]:
    # Root in a container is common, and its programs connect to nothing outside this machine.
    calm = ("-W", "ignore:You're running the worker with superuser privileges")
    options = ("--quiet", "-A", "config", "--workdir", str(settings.ROOT))
    return (sys.executable, *calm, "-m", "celery", *options, command)


def _build_python_command(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _build_manage_command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, str(settings.ROOT / "manage.py"), *arguments)
