"""Liveness needs nothing; readiness names what is missing."""

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import DatabaseError
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from deployments.engine import dispatch
from deployments.models import Pulse
from ops import health
from sandbox.process import SandboxProcess

NOBODY = "127.0.0.1:1"


def beat_once(*, seconds_ago: float = 0) -> None:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    Pulse.objects.update_or_create(name=dispatch.DISPATCHER, defaults={"at": at})


def readiness() -> tuple[int, dict[str, Any]]:
    answer = Client().get("/readyz")
    return answer.status_code, answer.json()


def test_liveness_touches_neither_database_nor_broker(settings: Settings) -> None:
    settings.REDIS_URL = f"redis://{NOBODY}"

    answer = Client().get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.django_db
def test_ready_when_everything_answers(live_broker: str, sandbox: SandboxProcess) -> None:
    beat_once()

    assert readiness() == (200, {"status": "ready", "missing": [], "reasons": {}, "processes": []})


@pytest.mark.django_db
def test_a_broker_that_is_away_is_named(sandbox: SandboxProcess, settings: Settings) -> None:
    settings.REDIS_URL = f"redis://{NOBODY}"

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["broker"])
    assert "does not respond" in body["reasons"]["broker"]


@pytest.mark.django_db
def test_a_sandbox_that_is_away_is_named(live_broker: str, settings: Settings) -> None:
    settings.SANDBOX_URL = f"http://{NOBODY}"
    beat_once()

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["sandbox"])


@pytest.mark.django_db
def test_production_wants_no_sandbox(live_broker: str, settings: Settings) -> None:
    settings.SANDBOX_URL = ""
    beat_once()

    assert readiness()[0] == 200


@pytest.mark.django_db
def test_an_old_pulse_with_an_empty_queue_means_that_nobody_asks(
    live_broker: str, sandbox: SandboxProcess
) -> None:
    beat_once(seconds_ago=16)

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["dispatcher"])
    assert "Celery beat" in body["reasons"]["dispatcher"]


@pytest.mark.django_db
def test_no_pulse_with_waiting_messages_means_that_nobody_works(
    live_broker: str, sandbox: SandboxProcess, settings: Settings
) -> None:
    with redis.Redis.from_url(live_broker) as client:
        client.rpush(settings.CELERY_TASK_DEFAULT_QUEUE, "a request that nobody takes")

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["worker"])
    assert "never ran" in body["reasons"]["worker"]


@pytest.mark.django_db
def test_missing_migrations_are_counted(live_broker: str, sandbox: SandboxProcess) -> None:
    newest = MigrationRecorder.Migration.objects.filter(app="deployments").order_by("-name")[:2]
    MigrationRecorder.Migration.objects.filter(pk__in=list(newest.values_list("pk", flat=True))).delete()
    health._is_migrated.cache_clear()

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["database"])
    assert "2 migrations" in body["reasons"]["database"]


def test_a_database_that_is_away_is_named(
    live_broker: str, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise DatabaseError("connection refused")

    monkeypatch.setattr(health, "_check_migrations", refuse)

    status, body = readiness()

    assert (status, body["missing"]) == (503, ["database"])
