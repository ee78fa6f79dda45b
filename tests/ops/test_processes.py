"""Signs of life of web and worker processes, and what probes read of them."""

import asyncio
import os
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from ops import processes
from ops.models import ServerProcess
from ops.processes import LifeSigns, WebLifeSigns, list_processes
from tests.ops.test_health import beat_once

pytestmark = pytest.mark.django_db
TOKEN = "token-of-the-monitoring"
WEB, WORKER = ServerProcess.Role.WEB, ServerProcess.Role.WORKER


def create_process(
    role: ServerProcess.Role, *, pid: int = 1, host: str = "elsewhere", silent: float = 0
) -> None:
    now = timezone.now()
    seen_at = now - timedelta(seconds=silent)
    ServerProcess.objects.create(
        role=role, hostname=host, pid=pid, version="1", started_at=now - timedelta(hours=1), seen_at=seen_at
    )


@pytest.fixture
def production(settings: Settings) -> Settings:
    settings.EMBEDDED = False
    settings.SANDBOX_URL = ""
    settings.HEALTH_TOKEN = TOKEN
    return settings


@pytest.mark.parametrize("address", ["10.0.3.17", "100.64.3.17", "fd12::17", "::ffff:10.0.3.17"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_name_the_target_by_its_address(
    production: Settings, live_broker: str, caplog: pytest.LogCaptureFixture, path: str, address: str
) -> None:
    beat_once()
    answer = Client(REMOTE_ADDR=address).get(path, headers={"host": "10.0.1.8:8000"})
    assert answer.status_code == 200
    assert caplog.records == []


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_not_redirected_to_https(production: Settings, live_broker: str, path: str) -> None:
    production.SECURE_SSL_REDIRECT = True
    beat_once()
    assert Client(REMOTE_ADDR="10.0.3.17").get(path).status_code == 200


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("93.184.215.14", {}),
        ("::ffff:93.184.215.14", {}),
        ("2606:2800:21f::1", {}),
        ("10.0.3.17", {"X-Forwarded-For": "93.184.215.14"}),
        ("10.0.3.17", {"Forwarded": "for=93.184.215.14"}),
        ("93.184.215.14", {"Authorization": "Bearer another-token"}),
        ("93.184.215.14", {"Authorization": "Bearer "}),
        ("", {}),
    ],
)
def test_from_outside_health_needs_the_token(
    production: Settings, live_broker: str, address: str, headers: dict[str, str]
) -> None:
    beat_once()
    client = Client(REMOTE_ADDR=address)
    for path in ("/healthz", "/readyz"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 403
        assert "SLIPWAY_HEALTH_TOKEN" in answer.json()["detail"]
        allowed = client.get(path, headers=headers | {"Authorization": f"Bearer {TOKEN}"})
        assert allowed.status_code == 200


def test_without_a_token_in_the_settings_none_is_right(production: Settings) -> None:
    production.HEALTH_TOKEN = ""
    answer = Client(REMOTE_ADDR="93.184.215.14").get("/healthz", headers={"Authorization": "Bearer "})
    assert answer.status_code == 403


def test_probes_only_read(production: Settings) -> None:
    assert Client(REMOTE_ADDR="10.0.3.17").post("/healthz").status_code == 405


def test_one_frozen_worker_of_two_degrades_and_is_named(production: Settings, live_broker: str) -> None:
    beat_once()
    create_process(WEB)
    create_process(WORKER, pid=71)
    create_process(WORKER, pid=72, silent=65)
    answer = Client().get("/readyz")
    body = answer.json()
    assert (answer.status_code, body["status"], body["missing"]) == (200, "degraded", [])
    ((name, reason),) = body["reasons"].items()
    assert name == "worker process 72 on elsewhere"
    assert "No sign of life for 65 s" in reason
    states = [(row["role"], row["pid"], row["status"]) for row in body["processes"]]
    assert states == [("web", 1, "alive"), ("worker", 71, "alive"), ("worker", 72, "silent")]


def test_a_process_that_has_been_silent_for_long_is_no_longer_missed(
    production: Settings, live_broker: str
) -> None:
    beat_once()
    create_process(WORKER, silent=601)
    assert Client().get("/readyz").json()["status"] == "ready"


def test_a_process_that_ends_in_order_is_not_missed() -> None:
    signs = LifeSigns(WORKER)
    signs.renew()
    (state,) = list_processes(timezone.now())
    assert (state.process.pid, state.process.version, state.is_silent) == (os.getpid(), "0.1.0", False)
    signs.renew()
    assert ServerProcess.objects.count() == 1
    signs.end()
    assert ServerProcess.objects.count() == 0


def test_a_new_process_takes_the_place_of_a_killed_one_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.socket, "gethostname", lambda: "here")
    create_process(WORKER, pid=2**22 + 1, host="here")
    create_process(WORKER, pid=os.getppid(), host="here")
    create_process(WORKER, pid=2**22 + 1, host="elsewhere")
    create_process(WEB, pid=2**22 + 1, host="here")
    LifeSigns(WORKER).renew()
    rows = ServerProcess.objects.values_list("role", "hostname", "pid")
    assert set(rows) == {
        ("WORKER", "here", os.getppid()),
        ("WORKER", "here", os.getpid()),
        ("WORKER", "elsewhere", 2**22 + 1),
        ("WEB", "here", 2**22 + 1),
    }


def test_a_row_that_was_deleted_meanwhile_is_created_again() -> None:
    signs = LifeSigns(WEB)
    signs.renew()
    ServerProcess.objects.all().delete()
    signs.renew()
    assert ServerProcess.objects.count() == 1


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_outage_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    def fail() -> datetime:
        raise error("the database is away")

    monkeypatch.setattr(processes, "get_database_time", fail)
    LifeSigns(WEB).renew()
    assert "the database is away" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_web_process_shows_itself_from_startup_to_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SIGN_INTERVAL_SECONDS", 0.01)
    sent: list[str] = []
    seen: list[datetime] = []

    async def live() -> None:
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def send(message: Any) -> None:
            sent.append(message["type"])

        inbox.put_nowait({"type": "lifespan.startup"})
        running = asyncio.create_task(WebLifeSigns()({"type": "lifespan"}, inbox.get, send))
        while len(set(seen)) < 2:
            await asyncio.sleep(0.01)
            seen.extend([row.seen_at async for row in ServerProcess.objects.all()])
        inbox.put_nowait({"type": "lifespan.shutdown"})
        await running

    asyncio.run(live())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert ServerProcess.objects.count() == 0
    connection.close()
