"""The end of a rollout is told by an event of AWS, with few calls."""

import json
import time
from datetime import datetime
from typing import Any

import boto3
import pytest
from time_machine import TimeMachineFixture

from connectors.models import Connector, EventQueue
from delegates.event_queues.readers import QueueReader
from deployments.models import Execution
from tests.fixtures.engine_driver import Drive
from web.clock import _ClockReading

pytestmark = pytest.mark.django_db(transaction=True)

REGION = "us-east-1"
STEP_SECONDS = 1.0
WATCHER_KEY = "AKIAWATCHER"


@pytest.fixture(autouse=True)
def _moved_database_clock(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PostgreSQL's clock move with the others; SQLite has that of this machine."""
    monkeypatch.setattr("web.clock.CLOCK_REFRESH_SECONDS", 0)
    monkeypatch.setattr("web.clock._readings", {})
    monkeypatch.setattr("web.clock._read_clock", lambda: _ClockReading(drive.clock.now(), time.monotonic()))


def create_queue(drive: Drive) -> QueueReader:
    """Create a queue with the events of ECS, and return its reader."""
    url = drive.call("sqs", "CreateQueue", {"QueueName": "slipway-events"})["QueueUrl"]
    names = {"QueueUrl": url, "AttributeNames": ["QueueArn"]}
    arn = drive.call("sqs", "GetQueueAttributes", names)["Attributes"]["QueueArn"]
    drive.call("events", "PutRule", {"Name": "ecs", "EventPattern": json.dumps({"source": ["aws.ecs"]})})
    drive.call("events", "PutTargets", {"Rule": "ecs", "Targets": [{"Id": "slipway", "Arn": arn}]})
    connector = Connector.objects.get(identifier="sandbox_aws")
    queue = EventQueue.objects.create(connector=connector, region=REGION, queue_url=url)
    reader = QueueReader(queue.pk, "reader")
    assert reader.claim()
    return reader


def describe(drive: Drive) -> dict[str, Any]:
    """Return the ECS service, as another client than Slipway sees it."""
    keys = {"aws_access_key_id": WATCHER_KEY, "aws_secret_access_key": "any"}
    ecs = boto3.client("ecs", region_name=REGION, endpoint_url=drive.sandbox.url, **keys)
    service: dict[str, Any] = ecs.describe_services(cluster="demo", services=["myapp"])["services"][0]
    return service


def follow(
    drive: Drive, execution: Execution, reader: QueueReader, time_machine: TimeMachineFixture
) -> dict[str, float]:
    """Advance all clocks until the execution ends, and return the seconds at which AWS and Slipway ended."""
    seconds, ends = 0.0, dict[str, float]()
    while seconds < 300:
        drive.clock.move(STEP_SECONDS)
        drive.sandbox.advance(STEP_SECONDS)
        time_machine.move_to(drive.clock.now(), tick=False)
        seconds += STEP_SECONDS
        reader.read(wait_seconds=0)
        drive.reconcile()
        (deployment, *others) = describe(drive)["deployments"]
        has_begun = any(call.operation == "UpdateService" for call in drive.calls(execution))
        if has_begun and not others and deployment["rolloutState"] == "COMPLETED":
            ends.setdefault("AWS", seconds)
        execution.refresh_from_db()
        if execution.is_over:
            return ends | {"Slipway": seconds}
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def count_calls(drive: Drive, mark: int) -> dict[str, int]:
    """Return the calls of Slipway that are not shared with other deployments, by operation.

    A process reads its identity from STS once in ten minutes.
    """
    counts: dict[str, int] = {}
    for entry in drive.sandbox.journal(mark):
        is_shared = entry["service"] in ("sqs", "sts")
        if not is_shared and entry["key"] != WATCHER_KEY:
            counts[entry["operation"]] = counts.get(entry["operation"], 0) + 1
    return counts


def test_a_rollout_ends_by_its_event_and_needs_few_calls(
    drive: Drive, time_machine: TimeMachineFixture
) -> None:
    drive.run("1.27")
    time_machine.move_to(drive.clock.now(), tick=False)
    # The dates of events are those of the sandbox.
    sandbox_now = datetime.fromisoformat(drive.sandbox.control("GET", "health")["clock"]["now"])
    drive.sandbox.advance((drive.clock.now() - sandbox_now).total_seconds())
    reader = create_queue(drive)
    execution, mark = drive.start("1.28"), drive.mark()
    ends = follow(drive, execution, reader, time_machine)
    assert execution.status == "SUCCESS"
    # Without health checks, a completed service is watched for ten seconds more.
    assert ends["Slipway"] - ends["AWS"] <= 12
    # By polling, 30 to 41. Two of them are for the watch, and for the 41 seconds without any event.
    assert sum(count_calls(drive, mark).values()) <= 9, count_calls(drive, mark)


def test_a_rollout_whose_queue_is_gone_ends_as_soon_as_by_polling(
    drive: Drive, time_machine: TimeMachineFixture
) -> None:
    drive.run("1.27")
    time_machine.move_to(drive.clock.now(), tick=False)
    sandbox_now = datetime.fromisoformat(drive.sandbox.control("GET", "health")["clock"]["now"])
    drive.sandbox.advance((drive.clock.now() - sandbox_now).total_seconds())
    reader = create_queue(drive)
    execution = drive.start("1.28")
    while execution.event_at is None:
        drive.clock.move(STEP_SECONDS)
        drive.sandbox.advance(STEP_SECONDS)
        time_machine.move_to(drive.clock.now(), tick=False)
        reader.read(wait_seconds=0)
        drive.reconcile()
        execution.refresh_from_db()
    drive.call("sqs", "DeleteQueue", {"QueueUrl": EventQueue.objects.get().queue_url})
    ends = follow(drive, execution, reader, time_machine)
    assert execution.status == "SUCCESS"
    # Ten seconds of them to watch the completed service, five to the next poll.
    assert ends["Slipway"] - ends["AWS"] <= 17
