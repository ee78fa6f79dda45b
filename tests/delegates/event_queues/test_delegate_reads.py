"""A delegate reads the event queue of a connector through it, one task after the other."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from connectors.models import Connector, EventQueue
from connectors.models.event_queues import READ_WINDOW
from delegates.event_queues import delegate_reads, events
from delegates.event_queues.coverage import CoveredReads, QueueCoverage
from delegates.event_queues.delegate_reads import start_delegate_reads
from delegates.event_queues.events import ServiceEvent
from delegates.event_queues.records import list_free_queues, record_unread_queues
from delegates.models import DelegateTask
from delegates.task_owners import EVENT_QUEUE_OWNER, TaskAnswer
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope
from sandbox.process import SandboxProcess
from tests.contract.endpoint import client
from tests.delegates.event_queues.conftest import REGION, TAG
from tests.delegates.event_queues.test_events import build_message
from tests.fixtures.fake_delegates import Hand, hand
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
ARN = f"arn:aws:ecs:{REGION}:123456789012:service/demo/web"


@pytest.fixture
def sqs(sandbox: SandboxProcess) -> Any:
    """The client of SQS in the pretend account."""
    return client(sandbox.url, "sqs")


@pytest.fixture
def queue(remote_connector: Connector, sqs: Any, monkeypatch: pytest.MonkeyPatch) -> EventQueue:
    """An empty event queue of a connector through delegates with a tag."""
    monkeypatch.setattr(delegate_reads, "WAIT_SECONDS", 0)
    url = sqs.create_queue(QueueName="events")["QueueUrl"]
    return EventQueue.objects.create(connector=remote_connector, region=REGION, queue_url=url)


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[ServiceEvent]:
    """The events that listeners get."""
    received: list[ServiceEvent] = []

    def listen(coverage: QueueCoverage, batch: Sequence[ServiceEvent], now: datetime) -> None:
        received.extend(batch)

    monkeypatch.setattr(events, "_listeners", [listen])
    return received


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The queues whose end listeners are told."""
    stops: list[int] = []
    monkeypatch.setattr(events, "_stop_listeners", [lambda coverage, now: stops.append(coverage.pk)])
    return stops


def send(sqs: Any, queue: EventQueue, **changes: Any) -> None:
    message = build_message(region=REGION, resources=[ARN], **changes)
    sqs.send_message(QueueUrl=queue.queue_url, MessageBody=json.dumps(message))


def count_messages(sqs: Any, queue: EventQueue) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    values = sqs.get_queue_attributes(QueueUrl=queue.queue_url, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in values.values())


def take(agent: Hand) -> DelegateTask:
    route_waiting_tasks(get_database_time())
    task = agent.take()
    assert task is not None
    return task


def serve(agent: Hand, count: int) -> list[str]:
    """Make the next calls, and return their operations."""
    first = len(agent.taken_operations)
    for _ in range(count):
        task = take(agent)
        agent.complete(task, agent.perform(task))
    return agent.taken_operations[first:]


def get_state(queue: EventQueue) -> EventQueue.State:
    queue.refresh_from_db()
    return queue.get_state(get_database_time())


def list_open_tasks() -> list[str]:
    tasks = DelegateTask.objects.filter(owner=EVENT_QUEUE_OWNER, status__in=DelegateTask.OPEN)
    return [json.loads(task.payload)["operation"] for task in tasks.order_by("queued_at")]


def test_events_reach_the_listeners_and_their_messages_are_deleted_afterwards(
    queue: EventQueue, sqs: Any, received: list[ServiceEvent]
) -> None:
    agent = hand("near", tags=(TAG,))
    send(sqs, queue)
    send(sqs, queue, account="999999999999")
    assert list_free_queues(get_database_time()) == [], "no worker reads it"
    start_delegate_reads(get_database_time())
    assert serve(agent, 2) == ["GetCallerIdentity", "ReceiveMessage"]
    assert [(event.account, event.service) for event in received] == [("123456789012", "web")]
    assert get_state(queue) == EventQueue.State.RECEIVING
    assert count_messages(sqs, queue) == 2, "their deletion follows the commit"
    assert serve(agent, 1) == ["DeleteMessageBatch"]
    assert count_messages(sqs, queue) == 0
    # One long poll at a time, however often a worker looks.
    start_delegate_reads(get_database_time())
    assert list_open_tasks() == ["ReceiveMessage"]


def test_messages_that_are_too_large_together_are_read_one_by_one(
    queue: EventQueue,
    sqs: Any,
    received: list[ServiceEvent],
    stops: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegate_reads, "HIDDEN_SECONDS", 0)
    agent = hand("near", tags=(TAG,))
    for _ in range(3):
        send(sqs, queue)
    start_delegate_reads(get_database_time())
    serve(agent, 1)
    task = take(agent)
    # What an agent sends instead of a message that exceeds its limit.
    error = {"kind": "TaskError", "code": "AnswerRefused", "message": "too large", "capability": False}
    agent.complete(task, TaskAnswer("FAILED", error=error))
    asked = []
    while count_messages(sqs, queue):
        task = take(agent)
        asked.append(agent.payloads[-1].params["params"].get("MaxNumberOfMessages", 0))
        agent.complete(task, agent.perform(task))
    assert [most for most in asked if most][:2] == [1, 2]
    assert {event.service for event in received} == {"web"}
    assert stops == []
    assert get_state(queue) == EventQueue.State.RECEIVING


def test_the_late_answer_of_a_delegate_that_was_replaced_changes_nothing(
    queue: EventQueue, sqs: Any, received: list[ServiceEvent]
) -> None:
    agent = hand("near", tags=(TAG,))
    send(sqs, queue)
    start_delegate_reads(get_database_time())
    serve(agent, 1)
    task = take(agent)
    answer = agent.perform(task)
    later = get_database_time() + delegate_reads.LEASE_DURATION
    start_delegate_reads(later)
    agent.complete(task, answer)
    assert received == []
    assert count_messages(sqs, queue) == 1
    # The message is hidden for a while, and comes again.
    sqs.change_message_visibility(
        QueueUrl=queue.queue_url,
        ReceiptHandle=answer.result["Messages"][0]["ReceiptHandle"],  # type: ignore[index]
        VisibilityTimeout=0,
    )
    assert serve(agent, 3) == ["GetCallerIdentity", "ReceiveMessage", "DeleteMessageBatch"]
    assert len(received) == 1
    assert count_messages(sqs, queue) == 0


def test_without_a_delegate_polling_takes_over_until_one_is_back(
    queue: EventQueue, sqs: Any, received: list[ServiceEvent], stops: list[int]
) -> None:
    agent = hand("near", tags=(TAG,))
    send(sqs, queue)
    start_delegate_reads(get_database_time())
    serve(agent, 2)
    # The delegate dies during its poll: nobody answers.
    now = get_database_time()
    record_unread_queues(now + READ_WINDOW - timedelta(seconds=2))
    assert stops == []
    record_unread_queues(now + READ_WINDOW + timedelta(seconds=2))
    record_unread_queues(now + READ_WINDOW + timedelta(seconds=4))
    assert stops == [queue.pk]
    assert get_state(queue) == EventQueue.State.FAILING
    assert "No delegate has read the queue for 25 seconds. See the delegates page" in queue.problem
    # A delegate that is back takes the poll that waits for it.
    assert serve(agent, 2) == ["DeleteMessageBatch", "ReceiveMessage"]
    assert get_state(queue) == EventQueue.State.RECEIVING


def test_a_queue_that_a_delegate_cannot_read_fails_with_the_reason_and_is_tried_again(
    queue: EventQueue, sqs: Any, stops: list[int]
) -> None:
    agent = hand("near", tags=(TAG,))
    start_delegate_reads(get_database_time())
    serve(agent, 2)
    sqs.delete_queue(QueueUrl=queue.queue_url)
    serve(agent, 1)
    assert get_state(queue) == EventQueue.State.FAILING
    assert "does not exist" in queue.problem
    assert stops == [queue.pk]
    assert list_open_tasks() == []
    sqs.create_queue(QueueName="events")
    start_delegate_reads(get_database_time())
    assert list_open_tasks() == [], "not at once"
    start_delegate_reads(get_database_time() + delegate_reads.PAUSE)
    serve(agent, 2)
    assert queue.problem
    assert get_state(queue) == EventQueue.State.WAITING


def test_no_delegate_at_all_is_the_reason_of_a_failure(queue: EventQueue, stops: list[int]) -> None:
    start_delegate_reads(get_database_time())
    route_waiting_tasks(get_database_time() + delegate_reads.TASK_DEADLINE * 2)
    assert get_state(queue) == EventQueue.State.FAILING
    assert queue.problem


def test_a_queue_that_a_delegate_reads_counts_for_its_connector_only(
    queue: EventQueue, project: Scope
) -> None:
    spec = {name: value for name, value in queue.connector.spec.items() if name != "endpoint_url"}
    Connector.objects.filter(pk=queue.connector.pk).update(spec=spec)
    queue.account = "123456789012"
    queue.connector.refresh_from_db()
    coverage = QueueCoverage.of(queue)
    reads = CoveredReads(queue.connector.pk, project.path, queue.account, REGION)
    assert coverage.covers(reads, isolated=())
    # A delegate reports the account, and could report any.
    assert not coverage.covers(CoveredReads(0, project.path, queue.account, REGION), isolated=())


def test_a_connector_that_is_saved_while_its_account_is_read_has_it_read_again(queue: EventQueue) -> None:
    agent = hand("near", tags=(TAG,))
    start_delegate_reads(get_database_time())
    task = take(agent)
    answer = agent.perform(task)
    queue.connector.save()
    agent.complete(task, answer)
    assert list_open_tasks() == ["GetCallerIdentity"]
    assert serve(agent, 2) == ["GetCallerIdentity", "ReceiveMessage"]


def test_the_delegate_that_named_the_account_reads_its_messages(queue: EventQueue, sqs: Any) -> None:
    first = hand("first", tags=(TAG,))
    start_delegate_reads(get_database_time())
    serve(first, 1)
    second = hand("second", tags=(TAG,))
    send(sqs, queue)
    serve(first, 3)
    assert first.taken_operations[:4] == [
        "GetCallerIdentity",
        "ReceiveMessage",
        "DeleteMessageBatch",
        "ReceiveMessage",
    ]
    route_waiting_tasks(get_database_time())
    assert second.take() is None
