"""Processes of an engine on the benchmark's database: broker, sandbox, one worker."""

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
from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from ops.supervision.valkey import find_server
from sandbox.process import SandboxProcess, start_sandbox
from tests.fixtures.processes import running, wait_until, working


@dataclass(frozen=True)
class Crew:
    """A broker and a sandbox for workers."""

    sandbox: SandboxProcess
    folder: Path
    broker_url: str

    @contextlib.contextmanager
    def worker(self, quota_share: float) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a worker of one process with this share of the default AWS quota."""
        environment = {
            **os.environ,
            "REDIS_URL": self.broker_url,
            "SLIPWAY_AWS_QUOTA_SHARE": f"{quota_share:g}",
            "LOG_LEVEL": "ERROR",
        }
        with working(environment, self.folder) as process:
            yield process

    def mark(self) -> int:
        """Return the number of the last call to AWS."""
        return int(self.sandbox.control("GET", "journal?after=999999999")["last"])

    def speed(self, speed: float) -> None:
        """Set the speed of the sandbox's clock; 0 pauses it."""
        self.sandbox.control("POST", "clock", {"paused": speed == 0, "speed": speed or 1})


@contextlib.contextmanager
def start_crew() -> Iterator[Crew]:
    """Run broker and sandbox with the demo until the block ends."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as name:
        folder = Path(name)
        socket = folder / "v.sock"
        server = [str(find_server()), "--save", "", "--dir", name, "--loglevel", "nothing"]
        with running([*server, "--port", "0", "--unixsocket", str(socket)], os.environ):
            with redis.Redis(unix_socket_path=str(socket)) as client:
                wait_until(lambda: _is_reachable(client), "Valkey's answer")
            app.conf["broker_url"] = f"redis+socket://{socket}?virtual_host=0"
            sandbox = start_sandbox(paused=True)
            settings.SANDBOX_URL = sandbox.url
            seed_demo(SandboxFacts.from_wire(sandbox.seed()))
            try:
                yield Crew(sandbox, folder, f"unix://{socket}")
            finally:
                sandbox.stop()


def _is_reachable(client: redis.Redis) -> bool:
    with contextlib.suppress(redis.RedisError):
        return bool(client.ping())
    return False
