"""Reading of an event queue by one worker at a time, under a lease."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

from aws.apis.iam import StsClient
from aws.apis.sqs import QueueMessage, SqsClient
from aws.errors import AwsError
from connectors.models import Connector, EventQueue
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from delegates.access.remedies import describe_with_remedy
from delegates.event_queues.records import HIDDEN_SECONDS, filter_free, record_failure, record_messages
from web.clock import get_database_time
from web.database_guards import require_current_database

# Below the time after which a call counts as unanswered.
WAIT_SECONDS: Final = 8
# Longer than a read without an answer, so that a reader does not lose its lease to a slow network.
LEASE_DURATION: Final = timedelta(seconds=25)


@dataclass
class QueueReader:
    """One reader of one queue; `owner` is unique among all readers."""

    pk: int
    owner: str
    _accounts: dict[tuple[int, datetime], str] = field(default_factory=dict)

    def claim(self) -> bool:
        """Take the lease if nobody has it, and return whether it was taken."""
        now = get_database_time()
        return bool(
            filter_free(now)
            .filter(pk=self.pk)
            .update(lease_owner=self.owner, lease_expires_at=now + LEASE_DURATION)
        )

    def release(self) -> None:
        """Give the lease back, so that another reader goes on at once."""
        self._filter_own().update(lease_expires_at=None, lease_owner="")

    def read(self, *, wait_seconds: int = WAIT_SECONDS) -> bool:
        """Pass on the next events, then delete their messages; False without the lease or after a failure.

        A crash before the deletion repeats the events, which changes nothing.
        """
        require_current_database()
        now = get_database_time()
        if not self._filter_own().update(lease_expires_at=now + LEASE_DURATION):
            return False
        queue = EventQueue.objects.select_related("connector__scope", "connector__secret").get(pk=self.pk)
        try:
            return self._exchange(queue, wait_seconds)
        except AwsError as error:
            problem = describe_with_remedy(queue.connector, error, queue.region)
        except ConnectorUnavailable as error:
            problem = str(error)
        record_failure(queue, problem, owner=self.owner, now=get_database_time())
        return False

    def _exchange(self, queue: EventQueue, wait_seconds: int) -> bool:
        caller = get_local_caller(queue.connector, queue.region)
        account = self._get_account(queue.connector, caller)
        sqs = SqsClient(caller)
        # The poll takes seconds in which others may need the connection.
        _close_connection()
        messages = sqs.receive_messages(
            queue.queue_url, wait_seconds=wait_seconds, hidden_seconds=HIDDEN_SECONDS
        )
        if not self._record(queue, account, messages):
            return False
        _close_connection()
        sqs.delete_messages(queue.queue_url, [message.receipt for message in messages])
        return True

    def _record(self, queue: EventQueue, account: str, messages: Sequence[QueueMessage]) -> bool:
        """Commit the effect of messages, unless another reader has the lease."""
        require_current_database()
        now = get_database_time()
        lease_expires_at = now + LEASE_DURATION
        return record_messages(
            queue, messages, owner=self.owner, account=account, now=now, lease_expires_at=lease_expires_at
        )

    def _filter_own(self) -> QuerySet[EventQueue]:
        return EventQueue.objects.filter(pk=self.pk, lease_owner=self.owner)

    def _get_account(self, connector: Connector, caller: Any) -> str:
        key = (connector.pk, connector.updated_at)
        if key not in self._accounts:
            self._accounts = {key: StsClient(caller).get_account_id()}
        return self._accounts[key]


def _close_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()
