"""Prometheus reads the state of the installation, and what web and worker processes count."""

import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.errors import AwsError
from delegates.models import Delegate
from deployments.engine import dispatch
from deployments.models import Pulse
from ops.models import ServerProcess
from ops.supervision import programs
from ops.supervision.child_process import ChildProcess
from ops.supervision.console import Console
from rbac.models import Scope
from sandbox.process import SandboxProcess
from tests.ports import free_port
from tests.secret_watch.marker import planted

ROOT = Path(__file__).resolve().parents[2]
NOBODY = "127.0.0.1:1"
Samples = dict[tuple[str, tuple[str, ...]], float]


def parse_samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def read_samples() -> Samples:
    answer = Client().get("/metrics")
    assert answer.status_code == 200, answer.content
    return parse_samples(answer.content.decode())


@pytest.mark.django_db
def test_the_state_of_the_installation_is_counted_with_every_status(live_broker: str) -> None:
    now, before = timezone.now(), read_samples()
    Delegate.objects.create(scope=Scope.objects.account(), name="prod-eu")
    Pulse.objects.create(name=dispatch.DISPATCHER, at=now - timedelta(seconds=30))
    for pid, silence in ((1, 0), (2, 60)):
        ServerProcess.objects.create(
            role="WORKER",
            hostname="a",
            pid=pid,
            version="1",
            started_at=now,
            seen_at=now - timedelta(seconds=silence),
        )

    samples = read_samples()

    assert samples["slipway_up", ("database",)] == samples["slipway_up", ("broker",)] == 1
    never_contacted = "slipway_delegates", ("never_contacted",)
    assert samples[never_contacted] == before[never_contacted] + 1
    assert samples["slipway_delegates", ("connected",)] == 0
    assert samples["slipway_executions", ("running",)] == 0
    assert samples["slipway_processes", ("worker", "silent")] == 1
    assert samples["slipway_processes", ("worker", "alive")] == 1
    assert samples["slipway_queue_messages", ()] == 0
    assert 29 < samples["slipway_dispatcher_age_seconds", ()] < 60


@pytest.mark.django_db
def test_an_installation_whose_dispatcher_never_ran_can_alert(live_broker: str) -> None:
    Pulse.objects.all().delete()

    assert read_samples()["slipway_dispatcher_age_seconds", ()] > 60


@pytest.mark.django_db
def test_a_part_that_does_not_answer_is_down_and_the_rest_is_told(settings: Settings) -> None:
    settings.REDIS_URL = f"redis://{NOBODY}"

    samples = read_samples()

    assert (samples["slipway_up", ("database",)], samples["slipway_up", ("broker",)]) == (1, 0)
    assert ("slipway_queue_messages", ()) not in samples


@pytest.mark.django_db
def test_nobody_outside_reads_the_metrics_of_production(settings: Settings) -> None:
    settings.EMBEDDED, settings.HEALTH_TOKEN = False, "a-token-of-enough-length"
    outside = Client(REMOTE_ADDR="8.8.8.8")

    assert outside.get("/metrics").status_code == 403
    assert outside.post("/metrics").status_code == 405
    headers = {"Authorization": f"Bearer {settings.HEALTH_TOKEN}"}
    assert outside.get("/metrics", headers=headers).status_code == 200


def test_calls_to_aws_are_counted_by_their_result(sandbox: SandboxProcess) -> None:
    def count(result: str) -> float:
        labels = {"service": "ecs", "operation": "DescribeClusters", "result": result}
        return REGISTRY.get_sample_value("slipway_aws_calls_total", labels) or 0

    before = {result: count(result) for result in ("ok", "not_sent")}
    credentials = AccessKey("AKIAMETRICS", planted("secret-of-the-metrics"))
    BotoCaller(credentials, "us-east-1", sandbox.url).call("ecs", "DescribeClusters", {})
    with pytest.raises(AwsError):
        BotoCaller(credentials, "us-east-1", f"http://{NOBODY}", sleep=lambda _: None).call(
            "ecs", "DescribeClusters", {}
        )

    assert count("ok") == before["ok"] + 1
    # A read is tried three times.
    assert count("not_sent") == before["not_sent"] + 3


WORKER = """
import os
from guards.metrics import RECONCILE_SECONDS
from ops.metrics import serve_worker_metrics
import httpx
for _ in range(2):
    if os.fork() == 0:
        RECONCILE_SECONDS.labels("done").observe(0.2)
        os._exit(0)
    os.wait()
serve_worker_metrics(int(os.environ["METRICS_PORT"]))
print(httpx.get(f"http://127.0.0.1:{os.environ['METRICS_PORT']}/metrics").text)
"""


def test_a_worker_serves_the_sums_of_its_children(tmp_path: Path) -> None:
    code = "import django; django.setup()\n" + WORKER
    environment = {
        **os.environ,
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path),
        "METRICS_PORT": str(free_port()),
        "SLIPWAY_HOME": str(tmp_path / "home"),
    }
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )

    assert parse_samples(run.stdout)["slipway_reconcile_seconds_count", ("done",)] == 2


def test_the_worker_of_make_run_serves_its_metrics(settings: Settings, tmp_path: Path) -> None:
    settings.HOME, settings.WORKER_METRICS_PORT = tmp_path, free_port()
    settings.ENV = settings.ENV.model_copy(update={"redis_url": f"redis://{NOBODY}"})
    environment = {
        **programs.build_environment(),
        "DATABASE_URL": "",
        "SLIPWAY_WORKER_METRICS_PORT": str(settings.WORKER_METRICS_PORT),
    }
    output = io.StringIO()
    url = f"http://127.0.0.1:{settings.WORKER_METRICS_PORT}/metrics"

    async def run() -> int:
        worker = ChildProcess(programs.get_worker(), environment, Console(output))
        running = asyncio.create_task(worker.run_once())
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            status = 0
            while not status and not running.done():
                await asyncio.sleep(0.1)
                with contextlib.suppress(httpx.TransportError):
                    status = (await client.get(url)).status_code
        worker.kill()
        await running
        return status

    assert asyncio.run(run()) == 200, output.getvalue()


def read_exported_labels() -> dict[str, dict[str, set[str]]]:
    """Return each metric that a process exports, with its labels and their values so far."""
    labels: dict[str, dict[str, set[str]]] = {}
    for text in (Client().get("/metrics").content.decode(), generate_latest(REGISTRY).decode()):
        for family in text_string_to_metric_families(text):
            # Also counters and histograms that have not counted yet.
            for suffix in ("", "_total", "_count", "_bucket"):
                labels.setdefault(f"{family.name}{suffix}", {})
            for sample in family.samples:
                for name, value in sample.labels.items():
                    labels.setdefault(sample.name, {}).setdefault(name, set()).add(value)
    # What this process has not come across yet.
    labels["slipway_aws_calls_total"]["result"] = {"ok", "refused", "throttled", "unanswered", "not_sent"}
    # Only with PostgreSQL.
    labels.setdefault("slipway_database_pool", {"state": {"open", "free", "awaited"}})
    return labels


def list_unknown_parts(expression: str, exported: dict[str, dict[str, set[str]]]) -> list[str]:
    """Return the metrics, and the values of labels, that an expression names and no process exports."""
    unknown = [name for name in re.findall(r"slipway_\w+", expression) if name not in exported]
    for name, matchers in re.findall(r"(slipway_\w+)\{([^}]*)\}", expression):
        values = exported.get(name, {})
        for label, pattern in re.findall(r'(\w+)[=!]~?"([^"]*)"', matchers):
            # Without a sample the values are not known.
            if values and not set(pattern.split("|")) <= values.get(label, set()):
                unknown.append(f"{name}{{{label}={pattern}}}")
    return unknown


@pytest.mark.django_db
def test_alerts_speak_of_metrics_that_exist(live_broker: str) -> None:
    Pulse.objects.create(name=dispatch.DISPATCHER, at=timezone.now())
    exported = read_exported_labels()
    document = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
    rules = document["groups"][0]["rules"]

    assert len({rule["alert"] for rule in rules}) == len(rules)
    # The others have no value to fire on while no web process is scraped.
    assert [rule["alert"] for rule in rules if rule["expr"] == "absent(slipway_up)"]
    for rule in rules:
        assert list_unknown_parts(rule["expr"], exported) == [], rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


@pytest.mark.django_db
def test_the_dashboard_shows_every_metric_and_no_other(live_broker: str) -> None:
    Pulse.objects.create(name=dispatch.DISPATCHER, at=timezone.now())
    exported = read_exported_labels()
    document = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text())
    panels = [panel for panel in document["panels"] if panel["type"] != "row"]

    shown: set[str] = set()
    for panel in panels:
        assert panel["description"].endswith("."), panel["title"]
        for target in panel["targets"]:
            assert list_unknown_parts(target["expr"], exported) == [], panel["title"]
            assert target["datasource"]["uid"] == "${datasource}"
            shown |= set(re.findall(r"slipway_[a-z_]+?(?=_bucket|_count|_total|\W|$)", target["expr"]))
    families = {family.name for family in REGISTRY.collect() if family.name.startswith("slipway_")}
    state = {name for name, _ in read_samples() if name.startswith("slipway_")}
    state = {re.sub("_(bucket|count|sum|total|created)$", "", name) for name in state}
    assert shown - {"slipway_database_pool"} == (families | state) - {"slipway_database_pool"}
    assert len({panel["id"] for panel in document["panels"]}) == len(document["panels"])
