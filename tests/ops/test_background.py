"""Why work waits: for a worker, behind other messages, or for the broker."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from ops.background import list_work_delays, read_queue_state
from rbac.models import User
from tests.ops.test_health import beat_once
from web.work_delays import SENT_AT_HEADER, list_installation_delays

pytestmark = pytest.mark.django_db
NOBODY = "127.0.0.1:1"


def push_message(broker_url: str, *, seconds_ago: float | None = None) -> None:
    """Put a message into the queue, as Celery does."""
    now = timezone.now().timestamp()
    headers = {} if seconds_ago is None else {SENT_AT_HEADER: now - seconds_ago}
    with redis.Redis.from_url(broker_url) as client:
        message = json.dumps({"body": "", "headers": headers})
        client.lpush(django_settings.CELERY_TASK_DEFAULT_QUEUE, message)


def list_texts() -> list[str]:
    return [delay.text for delay in list_work_delays(timezone.now())]


def count_connections(broker_url: str) -> int:
    """Return the number of connections that the broker has accepted so far, with the one that asks."""
    with redis.Redis.from_url(broker_url) as client:
        return int(client.info("stats")["total_connections_received"])


def test_nothing_waits_while_a_worker_answers(live_broker: str) -> None:
    beat_once()
    push_message(live_broker, seconds_ago=1)
    assert list_texts() == []


def test_messages_that_nobody_takes_wait_for_a_worker(live_broker: str) -> None:
    beat_once(seconds_ago=40)
    push_message(live_broker, seconds_ago=38)
    push_message(live_broker, seconds_ago=2)
    assert list_texts() == [
        "No worker has answered for 40 s.",
        "The workers are behind: 2 messages wait in queue slipway, the oldest for 38 s.",
    ]


def test_without_messages_the_dispatcher_does_not_answer(live_broker: str) -> None:
    assert list_texts() == ["No dispatcher has ever answered."]
    beat_once(seconds_ago=300)
    assert list_texts() == ["No dispatcher has answered for 5 min."]


@pytest.mark.parametrize("message", [b"no JSON", b"[]", b'{"headers": {"slipway_sent_at": null}}', b"{}"])
def test_a_message_without_its_time_waits_for_nothing(live_broker: str, message: bytes) -> None:
    with redis.Redis.from_url(live_broker) as client:
        client.lpush(django_settings.CELERY_TASK_DEFAULT_QUEUE, message)
    assert read_queue_state(timezone.now()).oldest_wait == timedelta(0)
    assert read_queue_state(timezone.now()).depth == 1


def test_a_broker_that_is_away_is_the_reason(settings: Settings) -> None:
    settings.REDIS_URL = f"redis://{NOBODY}"
    assert list_texts() == ["The broker does not respond: workers get no work until it does."]


def test_repeated_reads_share_one_connection(live_broker: str) -> None:
    read_queue_state(timezone.now())
    before = count_connections(live_broker)
    for _ in range(5):
        read_queue_state(timezone.now())
    assert count_connections(live_broker) == before + 1


def test_a_closed_connection_is_opened_again(live_broker: str) -> None:
    read_queue_state(timezone.now())
    with redis.Redis.from_url(live_broker) as client:
        client.client_kill_filter(_type="normal", skipme=True)
    assert read_queue_state(timezone.now()).depth == 0


def test_reasons_are_read_again_after_two_seconds(live_broker: str) -> None:
    beat_once(seconds_ago=40)
    now = timezone.now()
    (delay,) = list_installation_delays(now)
    assert (delay.code, delay.text) == ("DISPATCHER_SILENT", "No dispatcher has answered for 40 s.")

    beat_once()
    assert list_installation_delays(now + timedelta(seconds=1)) == [delay]
    assert list_installation_delays(now + timedelta(seconds=2)) == []


def test_the_api_tells_everybody_who_is_signed_in(
    live_broker: str, stranger: User, call: Callable[[User], APIClient]
) -> None:
    beat_once(seconds_ago=40)
    assert APIClient().get("/api/v1/delays").status_code == 401
    content = call(stranger).get("/api/v1/delays").json()
    assert [delay["code"] for delay in content["delays"]] == ["DISPATCHER_SILENT"]
    assert content["delays"][0]["text"].startswith("No dispatcher has answered for 4")
