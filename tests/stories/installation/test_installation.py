"""Two of everything, one killed and one replaced during deployments: all end right, each effect once."""

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from sandbox.process import SandboxProcess, start_sandbox
from tests.fixtures.processes import wait_until
from tests.fixtures.trace_collector import TraceCollector, collecting_traces
from tests.stories.installation.installation import (
    Installation,
    query_prometheus,
    run_prometheus,
    start_installation,
)

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]
# Slow enough that deployments are under way when processes die.
SPEED = 3.0
# Of each pipeline the tag to deploy; the sandbox ends a task by itself with the tag `done`.
PIPELINES = {
    "rolling_demo": "1.27",
    "canary_demo": "1.27",
    "blue_green_demo": "1.27",
    "run_task_demo": "done",
}
DEADLINE_SECONDS = 400


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    process = start_sandbox(paused=False, speed=SPEED)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with collecting_traces() as collector:
        yield collector


@pytest.fixture(scope="module")
def installation(sandbox: SandboxProcess, collector: TraceCollector) -> Iterator[Installation]:
    # Not below the test's own folder, which only root may enter.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            with start_installation(Path(folder), sandbox, collector.environment) as installation:
                yield installation
        finally:
            for log in sorted(Path(folder).glob("*.log")):
                print(f"--- {log.stem}", log.read_text(errors="replace")[-2000:], sep="\n")


class Watch:
    """Asks again and again while processes come and go; `errors` is what somebody at the proxy saw."""

    def __init__(self, installation: Installation) -> None:
        self.errors: list[str] = []
        self.unready = 0
        self._installation = installation
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _ask(self) -> None:
        with self._installation.open_client() as client:
            while not self._is_over.wait(0.3):
                probes = [self._installation.probe(name) for name in self._installation.web_ports]
                self.unready += 200 not in probes
                try:
                    status = client.get("/executions").status_code
                except httpx.HTTPError as exc:
                    self.errors.append(repr(exc))
                else:
                    self.errors += [str(status)] if status != 200 else []


def start(client: httpx.Client, pipelines: dict[str, int], name: str, tag: str) -> str:
    """Run a pipeline, and return the id of its execution."""
    answer = client.post(f"/pipelines/{pipelines[name]}/executions", json={"artifact": {"tag": tag}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def read(client: httpx.Client, execution: str) -> dict[str, Any]:
    document: dict[str, Any] = {}
    with suppress(httpx.HTTPError):
        document = client.get(f"/executions/{execution}").json()
    return document


def list_line_numbers(client: httpx.Client, execution: str) -> list[int]:
    numbers: list[int] = []
    while True:
        after = numbers[-1] if numbers else 0
        lines = client.get(f"/executions/{execution}/log", params={"after": after}).json()["lines"]
        if not lines:
            return numbers
        numbers += [line["number"] for line in lines]


def count_effects(sandbox: SandboxProcess) -> Counter[str]:
    """Return how often each write took effect, with what it was about."""
    effects: Counter[str] = Counter()
    number, last = 0, sandbox.last_number()
    while number < last and (entries := sandbox.journal(number)):
        for entry in entries:
            params = entry["params"]
            keys = ("serviceName", "service", "family", "taskDefinition")
            name = next((params[key] for key in keys if params.get(key)), "")
            # A call repeated with the same token has none.
            if entry["effect"] and entry["operation"] in (
                "CreateService",
                "DeleteService",
                "RunTask",
                "RegisterTaskDefinition",
            ):
                effects[f"{entry['operation']} {str(name).rpartition('/')[2]}"] += 1
        number = entries[-1]["number"]
    return effects


def test_deployments_end_right_while_processes_are_killed_and_replaced(
    installation: Installation, sandbox: SandboxProcess, collector: TraceCollector
) -> None:
    prometheus = run_prometheus(installation)
    with installation.open_client() as client, Watch(installation) as watch:
        rows = client.get("/pipelines", params={"org": "default", "project": "demo"}).json()["results"]
        pipelines = {row["identifier"]: row["id"] for row in rows}
        executions = [start(client, pipelines, name, tag) for name, tag in PIPELINES.items()]

        def is_any(*statuses: str) -> bool:
            return any(read(client, execution).get("status") in statuses for execution in executions)

        wait_until(lambda: is_any("RUNNING"), "the start of a deployment")
        installation.kill("worker-1")
        installation.kill("web-1")
        installation.start("worker-1")
        installation.start("web-1")
        crashing = start(client, pipelines, "rolling_demo", "crash")
        # As an update does: the next one takes over from each before the last one goes.
        for name in ("worker-2", "web-2"):
            installation.stop(name)
            installation.start(name)

        def are_over() -> bool:
            return all(read(client, execution).get("ended_at") for execution in (*executions, crashing))

        wait_until(are_over, "the end of all deployments", DEADLINE_SECONDS)
        ends = [read(client, execution) for execution in executions]
        assert [(row["status"], row["outcome"]) for row in ends] == [("SUCCESS", "COMPLETED")] * len(
            PIPELINES
        )
        failed = read(client, crashing)
        assert (failed["status"], failed["outcome"]) == ("FAILED", "ROLLED_BACK")
        for execution in (*executions, crashing):
            numbers = list_line_numbers(client, execution)
            assert numbers == list(range(1, len(numbers) + 1))
    assert (watch.errors, watch.unready) == ([], 0)

    effects = count_effects(sandbox)
    # The crashing version may get the lock of the service first: its rollback deletes what it created.
    created = {name: count for name, count in effects.items() if name.startswith("CreateService")}
    deleted = {name: effects[name.replace("Create", "Delete")] for name in created}
    assert {name: count for name, count in created.items() if count - deleted[name] > 1} == {}
    assert effects.total() > 0
    assert sum(count for name, count in effects.items() if name.startswith("RunTask")) == 1

    assert set(query_prometheus(prometheus, "up").values()) == {1.0}
    states = query_prometheus(prometheus, "max by (status) (slipway_executions)")
    assert (states["success"], states["failed"]) == (len(PIPELINES), 1)
    assert sum(query_prometheus(prometheus, "sum(slipway_aws_calls_total)").values()) > 0

    roots = [span for span in collector.spans if span.name.startswith("POST api/v1/pipelines/")]
    assert len(roots) == len(executions) + 1
    traced = collector.list_trace(roots[0].trace_id)
    assert {span.service for span in traced} == {"slipway-web", "slipway-worker"}
