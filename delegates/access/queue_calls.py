"""Calls that receive and delete messages of SQS queues, and the part of the answer that is kept."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aws.caller import Caller
from guards.limits import QUEUE_MESSAGE_CHARACTERS
from guards.text import sanitize_text

# The most of one call:
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
_MESSAGES: Final = 10
# With a wait, SQS asks all of its servers. A longer one would keep a worker.
_WAIT_SECONDS: Final = 1
# Within this time the next exchange deletes the messages; otherwise they come again.
_HIDDEN_SECONDS: Final = 120


def call_queue(caller: Caller, queue_url: str, receipts: Sequence[str]) -> dict[str, Any]:
    """Delete handled messages, and return the next ones as {"messages": [{"id", "receipt", "body"}]}.

    A body that is too long is cut one character above the limit. Raises `AwsError`, and `CallPending` until a
    delegate has answered.
    """
    if receipts:
        entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
        caller.call("sqs", "DeleteMessageBatch", {"QueueUrl": queue_url, "Entries": entries})
    answer = caller.call(
        "sqs",
        "ReceiveMessage",
        {
            "QueueUrl": queue_url,
            "MaxNumberOfMessages": _MESSAGES,
            "WaitTimeSeconds": _WAIT_SECONDS,
            "VisibilityTimeout": _HIDDEN_SECONDS,
        },
    )
    return {"messages": [_trim(message) for message in answer.get("Messages") or ()]}


def _trim(message: Mapping[str, Any]) -> dict[str, str]:
    return {
        "id": str(message.get("MessageId") or ""),
        "receipt": str(message.get("ReceiptHandle") or ""),
        "body": sanitize_text(str(message.get("Body") or ""))[: QUEUE_MESSAGE_CHARACTERS + 1],
    }
