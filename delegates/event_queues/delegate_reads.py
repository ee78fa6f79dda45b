"""Reading of event queues through delegates: one long poll at a time, as a chain of tasks under a lease.

Whoever added the queue had to be allowed to edit its connector; its reads have no user.
"""

import json
import logging
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from aws.apis.sqs import MOST_MESSAGES, build_delete_params, build_receive_params, parse_messages
from aws.errors import AwsError, NotSent, Unanswered, Undelivered
from connectors.models import EventQueue
from delegates.access.aws_access import (
    ConnectorPending,
    ConnectorUnavailable,
    DelegateAwsAccess,
    build_aws_payload,
    get_delegate_access,
    require_lendable_credentials,
)
from delegates.access.lookup_tasks import build_task_error
from delegates.access.remedies import describe_with_remedy
from delegates.event_queues.records import (
    HIDDEN_SECONDS,
    filter_free,
    list_free_queues,
    record_failure,
    record_messages,
)
from delegates.models import DelegateTask
from delegates.operations.tasks import AwsRead, ReadOwner, queue_read
from delegates.task_owners import ANSWER_REFUSED, EVENT_QUEUE_OWNER, TaskAnswer, TaskPayload
from web.clock import get_database_time

# Below the time after which an agent counts a call as unanswered.
WAIT_SECONDS: Final = 8
# How long a task waits for a delegate. Events follow at once when one is back within this time.
TASK_DEADLINE: Final = timedelta(seconds=60)
# Longer than a task, whose end continues the chain or releases the lease.
LEASE_DURATION: Final = TASK_DEADLINE * 3
PAUSE: Final = timedelta(seconds=15)
SECRET_PAUSE: Final = timedelta(seconds=2)
_GET_ACCOUNT, _RECEIVE, _DELETE = "GetCallerIdentity", "ReceiveMessage", "DeleteMessageBatch"
_ACCOUNT: Final = re.compile(r"\d{12}\Z", re.ASCII)

logger = logging.getLogger(__name__)


def start_delegate_reads(now: datetime) -> None:
    """Start to read the queues of connectors through delegates that nobody reads."""
    for pk in list_free_queues(now, is_remote=True):
        queue = _get_queue(pk)
        # Without a lease nobody else continues a chain of the queue.
        if queue is None or not filter_free(now).filter(pk=pk).update(
            lease_owner="", lease_expires_at=now + PAUSE
        ):
            continue
        queue.lease_owner = ""
        _queue_next(queue, _build_account_read(queue), now)


def _get_queue(pk: Any) -> EventQueue | None:
    rows = EventQueue.objects.select_related("connector__scope", "connector__secret")
    return rows.filter(pk=pk).first()


def _build_account_read(queue: EventQueue) -> AwsRead:
    return AwsRead("sts", _GET_ACCOUNT, {}, f"the event queue of {queue}")


def _build_message_read(queue: EventQueue, most: int = MOST_MESSAGES) -> AwsRead:
    params = build_receive_params(
        queue.queue_url, wait_seconds=WAIT_SECONDS, hidden_seconds=HIDDEN_SECONDS, most=most
    )
    return AwsRead("sqs", _RECEIVE, params, f"the event queue of {queue}")


def _queue_next(queue: EventQueue, read: AwsRead, now: datetime, last: DelegateTask | None = None) -> None:
    """Queue the next task of a chain, which has the lease then; the delegate of the `last` one goes on."""
    try:
        access = get_delegate_access(queue.connector, queue.region)
    except ConnectorUnavailable as unavailable:
        _handle_unavailable(queue, unavailable, now)
        return
    with transaction.atomic():
        task = _queue_task(access, queue, read, now, last)
        own = EventQueue.objects.filter(pk=queue.pk, lease_owner=queue.lease_owner)
        own.update(lease_owner=str(task.pk), lease_expires_at=now + LEASE_DURATION)


def _queue_task(
    access: DelegateAwsAccess, queue: EventQueue, read: AwsRead, now: datetime, last: DelegateTask | None
) -> DelegateTask:
    # Another delegate may have the credentials of another account than the one that was read.
    instance = last.instance if last else None
    return queue_read(
        access,
        read,
        owner=EVENT_QUEUE_OWNER,
        ref=str(queue.pk),
        until=now + TASK_DEADLINE,
        delegate_id=instance.delegate_id if instance else None,
    )


def _handle_unavailable(queue: EventQueue, unavailable: ConnectorUnavailable, now: datetime) -> None:
    if not isinstance(unavailable, ConnectorPending):
        _fail(queue, str(unavailable), now)
        return
    # A delegate reads a secret of the connector: a new chain begins with it.
    own = EventQueue.objects.filter(pk=queue.pk, lease_owner=queue.lease_owner)
    own.update(lease_owner="", lease_expires_at=now + SECRET_PAUSE)


def _fail(queue: EventQueue, problem: str, now: datetime) -> None:
    """Record why the queue was not read; a new chain begins after a pause."""
    released: dict[str, Any] = {"lease_owner": "", "lease_expires_at": now + PAUSE}
    record_failure(queue, problem, owner=queue.lease_owner, now=now, **released)


class EventQueueTaskOwner(ReadOwner):
    """Owner of the tasks that read event queues. Only the task with the lease has an effect."""

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Return the call with the connector's credentials; None if the queue is not read by it any more."""
        queue = _get_queue_of(task)
        if queue is None:
            return None
        payload = json.loads(task.payload)
        try:
            require_lendable_credentials(task, queue.connector)
            return build_aws_payload(
                queue.connector, queue.region, payload["service"], payload["operation"], payload["params"]
            )
        except ConnectorUnavailable as unavailable:
            _handle_unavailable(queue, unavailable, get_database_time())
        except NotSent as error:
            _fail(queue, error.display_message, get_database_time())
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Commit the effect of messages, and with it the tasks that delete them and receive the next ones."""
        queue, call = _get_queue_of(task), json.loads(task.payload)
        operation = call["operation"]
        if queue is None or operation == _DELETE:
            # What was not deleted comes again, and changes nothing.
            return
        code = (answer.error or {}).get("code")
        if operation == _RECEIVE and code == ANSWER_REFUSED and _get_most(call) > 1:
            # Together they exceed what an agent may send; each of them comes again.
            _continue(queue, task, _build_message_read(queue, 1), get_database_time())
        elif answer.status != "SUCCEEDED":
            self._handle_error(queue, build_task_error(answer))
        elif operation == _GET_ACCOUNT:
            _continue_with_account(queue, task, str((answer.result or {}).get("Account", "")))
        else:
            _continue_with_messages(queue, task, answer)

    def record_lost(self, task: DelegateTask) -> None:
        """Let a new chain begin: messages that the delegate had received come again."""
        if (queue := _get_queue_of(task)) is not None:
            self._handle_error(queue, Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def record_unanswered(self, task: DelegateTask) -> None:
        """Let a new chain begin for a task that no delegate took."""
        if (queue := _get_queue_of(task)) is not None:
            self._handle_error(
                queue, Undelivered("NO_DELEGATE", task.reason or "No delegate accepted the task.")
            )

    def _handle_error(self, queue: EventQueue, error: AwsError) -> None:
        _fail(queue, describe_with_remedy(queue.connector, error, queue.region), get_database_time())


def _get_queue_of(task: DelegateTask) -> EventQueue | None:
    """Return the queue of a deletion, or of the task that has the lease; otherwise None."""
    queue = _get_queue(int(task.owner_ref))
    if queue is None or json.loads(task.payload)["operation"] == _DELETE:
        return queue
    return queue if queue.lease_owner == str(task.pk) else None


def _continue(queue: EventQueue, task: DelegateTask, read: AwsRead, now: datetime) -> None:
    """Queue the next read after `task`, or that of the account if it may be another one now."""
    if queue.connector.updated_at > task.queued_at or task.instance is None:
        _queue_next(queue, _build_account_read(queue), now)
    else:
        _queue_next(queue, read, now, task)


def _continue_with_account(queue: EventQueue, task: DelegateTask, account: str) -> None:
    now = get_database_time()
    if not _ACCOUNT.match(account):
        _fail(queue, "The delegate reported no AWS account.", now)
        return
    EventQueue.objects.filter(pk=queue.pk, lease_owner=queue.lease_owner).update(account=account)
    _continue(queue, task, _build_message_read(queue), now)


def _continue_with_messages(queue: EventQueue, task: DelegateTask, answer: TaskAnswer) -> None:
    now = get_database_time()
    if queue.connector.updated_at > task.queued_at:
        # The account may be another one now; the messages come again.
        _queue_next(queue, _build_account_read(queue), now)
        return
    messages = parse_messages(answer.result or {})
    is_recorded = record_messages(
        queue,
        messages,
        owner=queue.lease_owner,
        account=queue.account,
        now=now,
        lease_expires_at=now + LEASE_DURATION,
    )
    if not is_recorded:
        return
    if messages:
        params = build_delete_params(queue.queue_url, [message.receipt for message in messages])
        _queue_next_deletion(queue, AwsRead("sqs", _DELETE, params, f"the event queue of {queue}"), now, task)
    most = _get_most(json.loads(task.payload))
    # More at once again after messages that were not too large.
    most = min(most * 2, MOST_MESSAGES) if messages else most
    _queue_next(queue, _build_message_read(queue, most), now, task)


def _get_most(call: Mapping[str, Any]) -> int:
    """Return how many messages a read asks for."""
    return int(call["params"]["MaxNumberOfMessages"])


def _queue_next_deletion(queue: EventQueue, read: AwsRead, now: datetime, last: DelegateTask) -> None:
    """Queue the deletion of messages, whose effect is in the same transaction."""
    try:
        _queue_task(get_delegate_access(queue.connector, queue.region), queue, read, now, last)
    except ConnectorUnavailable as unavailable:
        logger.info("Messages of the event queue %s were not deleted: %s", queue.pk, unavailable)
