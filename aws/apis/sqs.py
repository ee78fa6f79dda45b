"""Client for SQS: addresses of queues, and messages that are received and deleted."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aws.caller import Caller

QUEUE_URL: Final = re.compile(
    r"https?://[\w.:-]{1,100}/\d{12}/[\w-]{1,80}(\.fifo)?\Z",
    re.ASCII,
)
_AWS_QUEUE: Final = re.compile(r"https://sqs\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?/")
# The most of one call:
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
MOST_MESSAGES: Final = 10


def get_queue_region(queue_url: str) -> str:
    """Return the region in the address of a queue; empty if the address is not one of AWS."""
    match = _AWS_QUEUE.match(queue_url)
    return match[1] if match else ""


@dataclass(frozen=True)
class QueueMessage:
    """Message as SQS delivers it; its text is hostile until checked."""

    id: str
    receipt: str
    body: str


def build_receive_params(
    queue_url: str, *, wait_seconds: int, hidden_seconds: int, most: int = MOST_MESSAGES
) -> dict[str, Any]:
    """Return the parameters of ReceiveMessage for at most ten messages."""
    return {
        "QueueUrl": queue_url,
        "MaxNumberOfMessages": most,
        "WaitTimeSeconds": wait_seconds,
        "VisibilityTimeout": hidden_seconds,
    }


def parse_messages(answer: Mapping[str, Any]) -> list[QueueMessage]:
    """Return the messages in an answer to ReceiveMessage."""
    return [
        QueueMessage(
            str(message.get("MessageId") or ""),
            str(message.get("ReceiptHandle") or ""),
            str(message.get("Body") or ""),
        )
        for message in answer.get("Messages") or ()
    ]


def build_delete_params(queue_url: str, receipts: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of DeleteMessageBatch."""
    entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
    return {"QueueUrl": queue_url, "Entries": entries}


@dataclass(frozen=True)
class SqsClient:
    """Speaks SQS through a caller. Its methods raise `AwsError`, and `CallPending` while a delegate calls."""

    caller: Caller

    def receive_messages(
        self, queue_url: str, *, wait_seconds: int, hidden_seconds: int
    ) -> list[QueueMessage]:
        """Return at most ten messages, which nobody else receives for `hidden_seconds`.

        With a wait, SQS asks all of its servers, and answers as soon as there is a message.
        """
        params = build_receive_params(queue_url, wait_seconds=wait_seconds, hidden_seconds=hidden_seconds)
        return parse_messages(self.caller.call("sqs", "ReceiveMessage", params))

    def delete_messages(self, queue_url: str, receipts: Sequence[str]) -> None:
        """Delete at most ten messages; one with an expired receipt comes again."""
        if receipts:
            self.caller.call("sqs", "DeleteMessageBatch", build_delete_params(queue_url, receipts))
