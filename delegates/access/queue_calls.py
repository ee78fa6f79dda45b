"""Calls that receive and delete messages of SQS queues, and the part of the answer that is kept."""

from collections.abc import Sequence
from typing import Any, Final

from aws.apis.sqs import QueueMessage, SqsClient
from aws.caller import Caller
from guards.limits import QUEUE_MESSAGE_CHARACTERS
from guards.text import sanitize_text

# With a wait, SQS asks all of its servers. A longer one would keep a worker.
_WAIT_SECONDS: Final = 1
# Within this time the next exchange deletes the messages; otherwise they come again.
_HIDDEN_SECONDS: Final = 120


def call_queue(caller: Caller, queue_url: str, receipts: Sequence[str]) -> dict[str, Any]:
    """Delete handled messages, and return the next ones as {"messages": [{"id", "receipt", "body"}]}.

    A body that is too long is cut one character above the limit. Raises `AwsError`, and `CallPending` until a
    delegate has answered.
    """
    sqs = SqsClient(caller)
    sqs.delete_messages(queue_url, receipts)
    messages = sqs.receive_messages(queue_url, wait_seconds=_WAIT_SECONDS, hidden_seconds=_HIDDEN_SECONDS)
    return {"messages": [_trim(message) for message in messages]}


def _trim(message: QueueMessage) -> dict[str, str]:
    body = sanitize_text(message.body)[: QUEUE_MESSAGE_CHARACTERS + 1]
    return {"id": message.id, "receipt": message.receipt, "body": body}
