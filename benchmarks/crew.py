"""The processes that an engine needs, around the database of the bench: broker, pretend AWS, one worker."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
from django.conf import settings

from config.celery import app
from ops.demo import seed_demo
from ops.demo_pipelines import SandboxFacts
from ops.valkey import find_server
from sandbox.process import SandboxProcess, start_sandbox
from tests.fixtures.processes import running, wait_until, working


@dataclass(frozen=True)
class Crew:
    """A broker and a pretend AWS account that workers can be started on."""

    sandbox: SandboxProcess
    folder: Path
    broker_url: str

    @contextlib.contextmanager
    def worker(self, quota_share: float) -> Iterator["subprocess.Popen[bytes]"]:
        """One worker of one process that may use such a share of AWS's default quota."""
        environment = {
            **os.environ,
            "REDIS_URL": self.broker_url,
            "SLIPWAY_AWS_QUOTA_SHARE": f"{quota_share:g}",
            "LOG_LEVEL": "ERROR",
        }
        with working(environment, self.folder) as process:
            yield process

    def mark(self) -> int:
        """The number of the last call that reached AWS."""
        return int(self.sandbox.control("GET", "journal?after=999999999")["last"])

    def speed(self, speed: float) -> None:
        """Let the time of AWS pass so much faster; 0 lets it stand still."""
        self.sandbox.control("POST", "clock", {"paused": speed == 0, "speed": speed or 1})


@contextlib.contextmanager
def hired() -> Iterator[Crew]:
    """Broker and pretend AWS with the demo in it, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as name:
        folder = Path(name)
        socket = folder / "v.sock"
        server = [find_server(), "--save", "", "--dir", folder, "--loglevel", "warning"]
        with running([*server, "--port", "0", "--unixsocket", socket], os.environ):
            with redis.Redis(unix_socket_path=str(socket)) as client:
                wait_until(lambda: _answers(client), "Valkey's answer")
            app.conf.broker_url = f"redis+socket://{socket}?virtual_host=0"
            sandbox = start_sandbox(paused=True)
            settings.SANDBOX_URL = sandbox.url
            seed_demo(SandboxFacts.from_wire(sandbox.seed()))
            try:
                yield Crew(sandbox, folder, f"unix://{socket}")
            finally:
                sandbox.stop()


def _answers(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False
