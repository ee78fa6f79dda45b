"""Records of what was read from an event queue: the effect of messages, failures and queues that stopped."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Case, DateTimeField, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Greatest

from aws.apis.sqs import QueueMessage
from connectors.models import EventQueue
from connectors.models.event_queues import READ_WINDOW
from connectors.specs.aws import parse_aws_spec
from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import (
    AwsEvent,
    ServiceEvent,
    UnusableEvent,
    notify_listeners,
    notify_stop_listeners,
    parse_event,
)

# A message that was received by a reader that died comes again after this time.
HIDDEN_SECONDS: Final = 30
_UNREAD: Final = f"has read the queue for {READ_WINDOW.total_seconds():.0f} seconds."

logger = logging.getLogger(__name__)


def filter_free(now: datetime) -> QuerySet[EventQueue]:
    """Filter the queues that nobody reads."""
    return EventQueue.objects.filter(Q(lease_expires_at=None) | Q(lease_expires_at__lte=now))


def list_free_queues(now: datetime, *, is_remote: bool = False) -> list[int]:
    """Return the keys of the queues that nobody reads, and that Slipway itself or a delegate has to read."""
    specs = filter_free(now).order_by("pk").values_list("pk", "connector__spec")
    return [pk for pk, spec in specs if parse_aws_spec(spec).is_remote == is_remote]


def record_messages(
    queue: EventQueue,
    messages: Sequence[QueueMessage],
    *,
    owner: str,
    account: str,
    now: datetime,
    lease_expires_at: datetime,
) -> bool:
    """Commit the effect of messages, unless another reader has the lease."""
    events = list(_read_events(queue, account, messages, now))
    columns: dict[str, Any] = {"read_at": now, "problem": "", "account": account}
    # Only events of ECS show that those of services arrive, and only of their time: they may come late.
    if times := [event.at for event in events if isinstance(event, ServiceEvent)]:
        newest = Value(max(times), output_field=DateTimeField())
        columns["last_event_at"] = Greatest(Coalesce("last_event_at", newest), newest)
        columns["silent_since"] = Case(When(silent_since__lt=newest, then=None), default=F("silent_since"))
    with transaction.atomic():
        own = EventQueue.objects.filter(pk=queue.pk, lease_owner=owner)
        if not own.update(lease_expires_at=lease_expires_at, **columns):
            return False
        if events:
            queue.account = account
            notify_listeners(QueueCoverage.of(queue), events, now)
    return True


def _read_events(
    queue: EventQueue, account: str, messages: Sequence[QueueMessage], now: datetime
) -> Iterator[AwsEvent]:
    for message in messages:
        try:
            yield parse_event(message.body, account=account, region=queue.region, now=now)
        except UnusableEvent as error:
            # Its text is a stranger's, so only the reason is logged.
            logger.info("A message of the event queue %s was dropped: %s", queue.pk, error)


def record_failure(
    queue: EventQueue, problem: str, *, owner: str, now: datetime, **columns: datetime | str
) -> None:
    """Record why a queue could not be read, unless another reader has the lease; polling takes over."""
    with transaction.atomic():
        own = EventQueue.objects.filter(pk=queue.pk, lease_owner=owner)
        if own.update(problem=problem, **columns) and not queue.problem:
            notify_stop_listeners(QueueCoverage.of(queue), now)


def record_unread_queues(now: datetime) -> None:
    """Record which queues nobody reads any more; polling takes over."""
    unread = EventQueue.objects.filter(problem="", read_at__lt=now - READ_WINDOW)
    for queue in unread.select_related("connector__scope"):
        with transaction.atomic():
            if unread.filter(pk=queue.pk).update(problem=_describe_unread(queue)):
                notify_stop_listeners(QueueCoverage.of(queue), now)


def _describe_unread(queue: EventQueue) -> str:
    if parse_aws_spec(queue.connector.spec).is_remote:
        remedy = (
            "See the delegates page: one with the tags of the connector must be connected and accept tasks."
        )
        return f"No delegate {_UNREAD} {remedy}"
    return f"No worker {_UNREAD} Check that a worker runs."
