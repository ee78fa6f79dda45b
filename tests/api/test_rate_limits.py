"""How often the API may be asked: per key, with a burst, and whether or not the shared cache answers."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache
from django.test import Client
from django.urls import get_resolver
from rest_framework.test import APIClient

from rbac import usage_counts
from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.secret_watch.marker import planted
from web.api.rate_limits import WINDOW_SECONDS, count_request
from web.api.views import BaseApiView

pytestmark = pytest.mark.django_db
NOON = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _nothing_counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(usage_counts.counts, "_away_until", 0.0)
    usage_counts.counts._own.clear()
    cache.clear()
    yield
    usage_counts.counts._own.clear()
    cache.clear()


def caller(person: User, name: str = "program") -> APIClient:
    client = APIClient()
    _, token = create_api_key(actor=person, user=person, name=name)
    client.credentials(HTTP_X_API_KEY=token)
    return client


@pytest.fixture
def _ten_a_minute(settings: Any) -> None:
    settings.API_REQUESTS_PER_MINUTE = 12


@pytest.mark.usefixtures("_ten_a_minute")
def test_who_asks_too_often_is_told_when_to_come_back(admin: User) -> None:
    program = caller(admin)
    answers = [program.get("/api/v1/orgs") for _ in range(4)]
    assert [answer.status_code for answer in answers[:2]] == [200, 200]
    refused = answers[-1]
    assert refused.status_code == 429
    assert refused["Content-Type"] == "application/problem+json"
    assert refused.json()["code"] == "throttled"
    assert "2 requests in 10 seconds" in refused.json()["detail"]
    assert 1 <= int(refused["Retry-After"]) <= 2 * WINDOW_SECONDS
    assert refused["RateLimit"].startswith('"api";r=0;t=')


@pytest.mark.usefixtures("_ten_a_minute")
def test_every_answer_says_how_much_is_left(admin: User) -> None:
    answer = caller(admin).get("/api/v1/orgs")
    assert answer["RateLimit-Policy"] == '"api";q=2;w=10'
    assert answer["RateLimit"].startswith('"api";r=1;')


@pytest.mark.usefixtures("_ten_a_minute")
def test_one_key_does_not_use_up_another(admin: User) -> None:
    greedy, modest = caller(admin), caller(admin, "another")
    for _ in range(5):
        greedy.get("/api/v1/orgs")
    assert modest.get("/api/v1/orgs").status_code == 200


@pytest.mark.usefixtures("_ten_a_minute")
def test_people_with_a_session_are_counted_too(admin: User) -> None:
    client = Client()
    client.force_login(admin)
    assert [client.get("/api/v1/orgs").status_code for _ in range(4)][-1] == 429


def count_admitted(seconds: float, per_second: int) -> int:
    """Return how many of `per_second` evenly spaced requests are admitted in some seconds."""
    moments = [NOON + number / per_second for number in range(int(seconds * per_second))]
    return sum(count_request("key:1", most=100, now=moment).is_allowed for moment in moments)


def test_a_burst_of_a_hundred_and_six_hundred_a_minute_get_through() -> None:
    assert count_admitted(1, per_second=500) == 100
    cache.clear()
    assert 590 <= count_admitted(60, per_second=50) <= 700


def test_no_edge_of_a_window_lets_twice_as_much_through() -> None:
    end = NOON + WINDOW_SECONDS - 0.01
    before = sum(count_request("key:1", most=100, now=end).is_allowed for _ in range(200))
    after = sum(count_request("key:1", most=100, now=end + 0.02).is_allowed for _ in range(200))
    assert before == 100
    assert after <= 1


@pytest.mark.parametrize("start", [NOON, NOON + 4.5, NOON + 9.9])
def test_who_waits_as_told_gets_through(start: float) -> None:
    while (verdict := count_request("key:1", most=100, now=start)).is_allowed:
        pass
    assert 0 < verdict.wait_seconds <= 2 * WINDOW_SECONDS
    assert count_request("key:1", most=100, now=start + verdict.wait_seconds + 0.001).is_allowed


def test_the_limit_holds_while_the_shared_cache_is_away(
    admin: User, monkeypatch: pytest.MonkeyPatch, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.API_REQUESTS_PER_MINUTE = 12
    monkeypatch.setattr(usage_counts, "cache", RedisCache("unix:///nowhere/valkey.sock", {}))
    program = caller(admin)
    with caplog.at_level(logging.WARNING):
        answers = [program.get("/api/v1/orgs").status_code for _ in range(4)]
    assert answers[0] == 200
    assert answers[-1] == 429
    assert sum("cache does not answer" in record.message for record in caplog.records) == 1


def test_people_can_sign_in_while_the_shared_cache_is_away(
    admin: User, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_counts, "cache", RedisCache("unix:///nowhere/valkey.sock", {}))
    admin.set_password(planted("correct horse battery"))
    admin.save()
    wrong = {"username": admin.username, "password": "wrong"}
    right = wrong | {"password": planted("correct horse battery")}
    assert client.post("/sign-in/", right).status_code == 302
    client.post("/sign-out/")
    for _ in range(6):
        client.post("/sign-in/", wrong)
    assert client.post("/sign-in/", right).status_code == 429


def test_a_count_never_stays_for_good(broker_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ended between two commands would lock somebody out for ever."""
    store = RedisCache(broker_url, {})
    raw, name = store._cache.get_client(None), store.make_and_validate_key("race")
    raw.delete(name)
    monkeypatch.setattr(usage_counts, "cache", store)
    monkeypatch.setattr(store, "incr", lambda key: raw.incr(name))
    assert usage_counts.UsageCounts().increment("race", seconds=60) == 1
    assert 0 < raw.ttl(name) <= 60
    store.close()


def test_every_route_is_counted() -> None:
    """Whoever writes a route on another base would forget the headers."""
    for pattern in get_resolver().url_patterns:
        for route in getattr(pattern, "url_patterns", []):
            view = getattr(route.callback, "cls", None)
            if view is not None and str(pattern.pattern).startswith("api/v1"):
                assert issubclass(view, BaseApiView), route.name
