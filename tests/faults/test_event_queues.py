"""The worker that reads an event queue is killed: another one goes on, and no event is lost."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import psycopg
import pytest

from delegates.event_queues.readers import LEASE_DURATION
from delegates.event_queues.threads import SEARCH_SECONDS
from tests.faults.installation import Installation
from tests.faults.workload import Workload
from tests.fixtures.processes import wait_until

pytestmark = pytest.mark.timeout(300)
ACCOUNT, REGION, CLUSTER = "123456789012", "us-east-1", "demo"
# The search of another worker follows the end of the lease; beside it, the database takes its time.
TAKEOVER_SECONDS = LEASE_DURATION.total_seconds() + SEARCH_SECONDS + 3


def write(installation: Installation, statement: str) -> int:
    with psycopg.connect(installation.database.url, autocommit=True) as connection:
        return connection.execute(statement.encode()).rowcount


@pytest.fixture
def sqs(installation: Installation) -> Any:
    """The client of SQS in the pretend account."""
    keys = {"aws_access_key_id": "AKIASANDBOX", "aws_secret_access_key": "any"}
    return boto3.client("sqs", region_name=REGION, endpoint_url=installation.sandbox.url, **keys)


@pytest.fixture
def _no_sync(installation: Installation, workload: Workload) -> Iterator[None]:
    """No sync of the cluster, which would read and delete what events announce."""
    idle = "UPDATE inventory_syncedcluster SET due_at = now() + interval '1 day', failures = 1"
    wait_until(
        lambda: write(installation, f"{idle} WHERE lease_expires_at IS NULL AND cluster = '{CLUSTER}'"),
        "the end of the sync of the cluster",
    )
    yield
    write(installation, "DELETE FROM inventory_announcedchange")
    write(installation, "UPDATE inventory_syncedcluster SET due_at = now(), failures = 0")


def send(sqs: Any, url: str, service: str) -> None:
    event = {
        "source": "aws.ecs",
        "detail-type": "ECS Service Action",
        "account": ACCOUNT,
        "region": REGION,
        "time": datetime.now(UTC).isoformat(),
        "resources": [f"arn:aws:ecs:{REGION}:{ACCOUNT}:service/{CLUSTER}/{service}"],
        "detail": {"eventName": "SERVICE_STEADY_STATE"},
    }
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))


def count_messages(sqs: Any, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    values = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in values.values())


def list_announced(installation: Installation) -> set[str]:
    rows = installation.rows("SELECT service FROM inventory_announcedchange WHERE service LIKE 'event-%'")
    return {name for (name,) in rows}


def read_owner(installation: Installation) -> str:
    """Return the reader of the queue; empty before its first read."""
    rows = installation.rows("SELECT lease_owner FROM connectors_eventqueue WHERE read_at IS NOT NULL")
    return str(rows[0][0]) if rows else ""


@pytest.mark.usefixtures("_no_sync")
def test_a_killed_reader_is_replaced_within_its_lease_and_no_event_is_lost(
    installation: Installation, sqs: Any
) -> None:
    first, second = installation.workers
    second.kill()
    url = sqs.create_queue(QueueName="fault-events")["QueueUrl"]
    ((connector,),) = installation.rows(
        "SELECT id FROM connectors_connector WHERE identifier = 'sandbox_aws'"
    )
    body = {"connector": connector, "queue_url": url, "region": REGION}
    queue = installation.request("POST", "/api/v1/event-queues", body)
    assert queue.status == 201, queue.body
    try:
        wait_until(lambda: read_owner(installation), "the first read")
        owner = read_owner(installation)
        second.start()
        names = [f"event-{number}" for number in range(40)]
        for name in names[:30]:
            send(sqs, url, name)
        wait_until(lambda: list_announced(installation), "the first event")
        first.kill()
        for name in names[30:]:
            send(sqs, url, name)
        wait_until(
            lambda: read_owner(installation) not in ("", owner), "another reader", seconds=TAKEOVER_SECONDS
        )
        wait_until(lambda: list_announced(installation) == set(names), "all events", seconds=60)
        wait_until(lambda: count_messages(sqs, url) == 0, "the deletion of all messages", seconds=60)
    finally:
        first.start()
        installation.request("DELETE", f"/api/v1/event-queues/{queue.json()['id']}")
