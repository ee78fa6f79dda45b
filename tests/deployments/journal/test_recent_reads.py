"""Reads that processes share: what is too old, of another cluster or nonsense is read again."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.cache import cache
from pytest_django import Settings

from deployments.journal import recent_reads
from deployments.journal.recent_reads import NEVER, SERVICES, get_recent_reads, publish_reads

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GROUP, OTHER_GROUP = "built-in:1:0|us-east-1|demo", "built-in:1:0|us-east-1|other"
APP = {"serviceName": "app", "runningCount": 1}


@pytest.fixture(autouse=True)
def _set_up_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cache.clear()
    monkeypatch.setattr(recent_reads._Availability, "paused_until", 0.0)
    yield
    cache.clear()


def find_reads(group: str = GROUP, since: datetime = NEVER, now: datetime = NOW) -> dict[str, object]:
    recent_reads = get_recent_reads(SERVICES, group, ["app", "unknown"], since=since, now=now)
    return {name: recent_read.answer for name, recent_read in recent_reads.items()}


def test_what_one_process_has_read_another_uses() -> None:
    publish_reads(SERVICES, GROUP, {"app": APP}, started_at=NOW)
    assert find_reads() == {"app": APP}


def test_that_there_is_no_such_service_is_known_too() -> None:
    publish_reads(SERVICES, GROUP, {"app": None}, started_at=NOW)
    assert find_reads() == {"app": None}


@pytest.mark.parametrize(
    ("since", "now"),
    [
        pytest.param(NEVER, NOW + timedelta(seconds=20), id="too old"),
        pytest.param(NOW, NOW, id="begun no later than the last write"),
        pytest.param(NEVER, NOW - timedelta(seconds=1), id="from the future of this clock"),
    ],
)
def test_what_may_not_be_used_is_not_found(since: datetime, now: datetime) -> None:
    publish_reads(SERVICES, GROUP, {"app": APP}, started_at=NOW)
    assert find_reads(since=since, now=now) == {}


def test_another_cluster_has_services_of_its_own() -> None:
    publish_reads(SERVICES, GROUP, {"app": APP}, started_at=NOW)
    assert find_reads(OTHER_GROUP) == {}


@pytest.mark.parametrize(
    "row",
    [
        "",
        "[",
        "[]",
        "{}",
        "[1]",
        '["x", {}]',
        "[1e400, {}]",
        "[NaN, {}]",
        '[1, "text"]',
        "[[], 1]",
        7,
        None,
        b"x",
    ],
)
def test_nonsense_in_the_cache_is_not_found(row: object) -> None:
    cache.set(recent_reads._get_key(SERVICES, GROUP, "app"), row)
    assert find_reads() == {}


@pytest.mark.parametrize("problem", [pickle.UnpicklingError("x"), EOFError(), AttributeError("x")])
def test_bytes_that_are_no_pickle_are_not_found(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def refuse(*_: object) -> None:
        raise problem

    monkeypatch.setattr(type(cache._connections[cache._alias]), "get_many", refuse)  # type: ignore[attr-defined]
    assert find_reads() == {}


def test_a_cache_that_is_down_is_asked_again_after_some_seconds(settings: Settings, tmp_path: Path) -> None:
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"unix://{tmp_path}/nobody.sock",
        }
    }
    publish_reads(SERVICES, GROUP, {"app": APP}, started_at=NOW)
    assert recent_reads._is_paused()
    assert find_reads() == {}
    recent_reads._Availability.paused_until = 0.0
    assert find_reads() == {}
    assert recent_reads._is_paused()
