"""One reader at a time reads an event queue, and deletes a message after its effect is stored."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import boto3
import pytest
from pytest_django import Settings

from aws.apis.sqs import QueueMessage
from connectors.models import Connector, EventQueue
from delegates.event_queues import events
from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import ServiceEvent
from delegates.event_queues.readers import QueueReader
from delegates.event_queues.records import list_free_queues, record_messages
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.api.sample_project import make_world
from tests.delegates.event_queues.test_events import build_message
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
REGION = "us-east-1"


@pytest.fixture
def sqs(sandbox: SandboxProcess) -> Any:
    """The client of SQS in the pretend account."""
    keys = {"aws_access_key_id": "AKIASANDBOX", "aws_secret_access_key": "any"}
    return boto3.client("sqs", region_name=REGION, endpoint_url=sandbox.url, **keys)


@pytest.fixture
def queue(project: Scope, admin: User, sandbox: SandboxProcess, sqs: Any, settings: Settings) -> EventQueue:
    """An empty event queue."""
    settings.ALLOW_AWS_ENDPOINTS = True
    connector = make_world(project, admin, admin).connector
    keys = {"credentials": "AccessKey", "access_key_id": "AKIASANDBOX", "endpoint_url": sandbox.url}
    Connector.objects.filter(pk=connector.pk).update(spec=keys)
    EventQueue.objects.all().delete()
    url = sqs.create_queue(QueueName="events")["QueueUrl"]
    return EventQueue.objects.create(connector=connector, region=REGION, queue_url=url)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[ServiceEvent]:
    """The events that listeners get."""
    received: list[ServiceEvent] = []

    def listen(coverage: QueueCoverage, batch: Sequence[ServiceEvent], now: datetime) -> None:
        received.extend(batch)

    monkeypatch.setattr(events, "_listeners", [listen])
    return received


def send(sqs: Any, queue: EventQueue, **changes: Any) -> None:
    arn = f"arn:aws:ecs:{REGION}:123456789012:service/demo/web"
    message = build_message(region=REGION, resources=[arn], **changes)
    sqs.send_message(QueueUrl=queue.queue_url, MessageBody=json.dumps(message))


def count_messages(sqs: Any, queue: EventQueue) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    values = sqs.get_queue_attributes(QueueUrl=queue.queue_url, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in values.values())


def test_events_reach_the_listeners_and_strangers_do_not(
    queue: EventQueue, sqs: Any, received: list[ServiceEvent]
) -> None:
    assert queue.get_state(get_database_time()) == EventQueue.State.WAITING
    send(sqs, queue)
    send(sqs, queue, account="999999999999")
    sqs.send_message(QueueUrl=queue.queue_url, MessageBody="poison")
    reader = QueueReader(queue.pk, "one")
    assert reader.claim()
    assert reader.read(wait_seconds=0)
    assert [(event.account, event.cluster, event.service) for event in received] == [
        ("123456789012", "demo", "web")
    ]
    assert count_messages(sqs, queue) == 0
    queue.refresh_from_db()
    assert queue.get_state(get_database_time()) == EventQueue.State.RECEIVING


def test_another_reader_goes_on_after_the_lease_of_a_dead_one(
    queue: EventQueue, sqs: Any, received: list[ServiceEvent]
) -> None:
    dead, other = QueueReader(queue.pk, "dead"), QueueReader(queue.pk, "other")
    assert dead.claim()
    assert not other.claim()
    assert list_free_queues(get_database_time()) == []
    EventQueue.objects.update(lease_expires_at=get_database_time() - timedelta(seconds=1))
    assert list_free_queues(get_database_time()) == [queue.pk]
    assert other.claim()
    send(sqs, queue)
    assert not dead.read(wait_seconds=0)
    assert received == []
    assert other.read(wait_seconds=0)
    assert len(received) == 1


def test_a_message_stays_if_its_effect_could_not_be_stored(
    queue: EventQueue, sqs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(coverage: QueueCoverage, batch: Sequence[ServiceEvent], now: datetime) -> None:
        raise RuntimeError("the worker dies here")

    monkeypatch.setattr(events, "_listeners", [fail])
    send(sqs, queue)
    reader = QueueReader(queue.pk, "one")
    reader.claim()
    with pytest.raises(RuntimeError):
        reader.read(wait_seconds=0)
    assert count_messages(sqs, queue) == 1


def test_a_queue_that_is_gone_fails_with_the_reason(queue: EventQueue, sqs: Any) -> None:
    sqs.delete_queue(QueueUrl=queue.queue_url)
    reader = QueueReader(queue.pk, "one")
    reader.claim()
    assert not reader.read(wait_seconds=0)
    queue.refresh_from_db()
    assert queue.get_state(get_database_time()) == EventQueue.State.FAILING
    assert "does not exist" in queue.problem


def test_an_event_that_comes_late_says_nothing_of_the_time_since(queue: EventQueue) -> None:
    now = get_database_time().replace(microsecond=0)
    silent_since = now - timedelta(minutes=1)
    EventQueue.objects.update(silent_since=silent_since)

    def read(at: datetime) -> None:
        message = build_message(region=REGION, time=at.isoformat())
        messages = [QueueMessage("1", "receipt", json.dumps(message))]
        assert record_messages(
            queue, messages, owner="", account="123456789012", now=now, lease_expires_at=now
        )
        queue.refresh_from_db()

    read(now - timedelta(minutes=10))
    assert (queue.last_event_at, queue.silent_since) == (now - timedelta(minutes=10), silent_since)
    read(now - timedelta(seconds=5))
    assert (queue.last_event_at, queue.silent_since) == (now - timedelta(seconds=5), None)
    read(now - timedelta(minutes=2))
    assert queue.last_event_at == now - timedelta(seconds=5)
