"""Pipelines with steps that are no ECS steps, and delegates that do the work of scripts."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from delegates.agent.executors import ExecutorContext, execute_task
from delegates.agent.tasks import HeldTask, parse_task
from delegates.models import DelegateTask
from delegates.protocol import logs
from delegates.protocol.leases import AcquiredTask
from delegates.task_owners import TaskAnswer, register_task_owner
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.stories.blue_green.conftest import shop

__all__ = ["_full_buckets", "drive", "shop", "write"]


@dataclass
class Worker(Hand):
    """A delegate that does its tasks with the executors of the agent."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def write(self, level: str, text: str) -> None:
        self.lines.append({"t": int(time.time() * 1000), "level": level, "text": text})

    def perform(self, task: DelegateTask) -> TaskAnswer:
        body = AcquiredTask(task, self.payloads[-1]).build_document()
        self.lines = []
        outcome = execute_task(HeldTask(parse_task(body, time.monotonic())), ExecutorContext(self))
        logs.append_task_lines(self.instance, task.pk, task.fence, 0, self.lines)
        return TaskAnswer(outcome.status, json.loads(json.dumps(outcome.result)), outcome.error, 7)


@pytest.fixture
def worker(drive: Drive) -> Iterator[Worker]:
    """A delegate with the tag scripts, whose answers bear the drive's time."""
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    yield Worker(hand("scripts", tags=("scripts",)).instance)
    register_task_owner(CALL_OWNER, CallOwner())


@dataclass
class Site:
    """A web server that records its requests."""

    url: str
    requests: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)
    status: int = 200
    body: str = '{"state": "green", "build": {"number": 7}}'


@pytest.fixture
def site() -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            fake_site.requests.append((self.command, self.path, dict(self.headers), body))
            content = fake_site.body.replace(
                "{authorization}", self.headers.get("Authorization", "")
            ).encode()
            self.send_response(fake_site.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake_site = Site(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield fake_site
    server.shutdown()
    server.server_close()
    thread.join()
