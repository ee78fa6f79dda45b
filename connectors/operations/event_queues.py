"""Operations on event queues: create and delete."""

import re
from collections.abc import Callable
from typing import Any, Final

from django.db import IntegrityError, transaction

from aws.apis.sqs import QUEUE_URL, get_queue_region
from connectors.models import Connector, EventQueue
from connectors.required_access import get_connector_requirements, require_access
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput, Conflict

QueueReaderFinder = Callable[[str], str]
"""Returns what else reads the queue with a URL, such as "The trigger push", or an empty text."""
_reader_finders: Final[list[QueueReaderFinder]] = []

REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+){1,2}-\d{1,2}\Z")


def register_queue_reader_finder(finder: QueueReaderFinder) -> None:
    """Register a finder of other readers of queues."""
    if finder not in _reader_finders:
        _reader_finders.append(finder)


def lock_queue_readers() -> None:
    """Lock the readers of queues until the transaction ends, before a new one is compared with the others.

    Triggers and event queues are in different tables, so no constraint prevents two readers of one queue.
    """
    # The next statement sees what this one waited for.
    accounts = Scope.objects.filter(kind=Scope.Kind.ACCOUNT)
    list(accounts.select_for_update(no_key=True).values_list("pk"))


def _require_unread(queue_url: str) -> None:
    """Refuse a queue that something else reads, since each message has one reader. Raises `Conflict`."""
    for find_reader in _reader_finders:
        if reader := find_reader(queue_url):
            raise Conflict(
                f"{reader} reads this queue, and each message has one reader. Create a queue for the events "
                "of ECS, with a rule that sends to it."
            )


def require_aws(connector: Connector) -> None:
    """Check that a connector can have event queues. Raises `BadInput`."""
    if connector.kind != Connector.Kind.AWS:
        raise BadInput("Only connectors to AWS have event queues.")


def create_event_queue(*, actor: User, connector: Connector, queue_url: str, region: str = "") -> EventQueue:
    """Add the event queue of a region; without `region`, that of the queue's address.

    Workers, or the delegates of the connector, read it with its credentials from now on. Raises `BadInput`,
    or `Conflict` if the region has a queue or the queue another reader.
    """
    require(actor, "core_connector_edit", connector)
    require_aws(connector)
    require_access(actor, get_connector_requirements(connector))
    region = region or get_queue_region(queue_url)
    if problems := _find_problems(connector, queue_url, region):
        raise BadInput("The event queue is not valid.", errors=problems)
    queue = EventQueue(connector=connector, region=region, queue_url=queue_url)
    try:
        with transaction.atomic():
            lock_queue_readers()
            _require_unread(queue_url)
            queue.save()
            record_audit_entry(
                actor=actor, action="eventqueue.create", thing=queue, after=_build_audit_values(queue)
            )
    except IntegrityError as exc:
        raise Conflict(_describe_conflict(connector, region)) from exc
    return queue


def _describe_conflict(connector: Connector, region: str) -> str:
    if connector.event_queues.filter(region=region).exists():
        return f"The connector has an event queue in {region}. Delete it first, or use another region."
    return (
        "Another event queue of Slipway has this URL, and each message has one reader. Delete that event "
        "queue first, or use a queue of another name."
    )


def delete_event_queue(*, actor: User, queue: EventQueue) -> None:
    """Stop reading a queue; checks of ECS are as frequent as without events again."""
    require(actor, "core_connector_edit", queue.connector)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="eventqueue.delete", thing=queue, before=_build_audit_values(queue)
        )
        queue.delete()


def _find_problems(connector: Connector, queue_url: str, region: str) -> list[dict[str, str]]:
    if not QUEUE_URL.match(queue_url):
        return [{"path": "queue_url", "message": "Enter the URL of a queue, as SQS shows it."}]
    if not REGION.match(region):
        return [{"path": "region", "message": "Enter a region, such as eu-central-1."}]
    # Only a connector with an endpoint of its own may lead elsewhere than to AWS.
    if not connector.spec.get("endpoint_url") and get_queue_region(queue_url) != region:
        return [{"path": "queue_url", "message": f"Enter the URL of a queue of AWS in {region}."}]
    return []


def _build_audit_values(queue: EventQueue) -> dict[str, Any]:
    return {
        "connector": queue.connector.identifier,
        "region": queue.region,
        "queue_url": queue.queue_url,
    }
