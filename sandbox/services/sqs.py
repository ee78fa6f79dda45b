"""Long polls of SQS queues, which wait outside the lock of the account.

moto waits inside its handler, and no other call could be served meanwhile.
"""

import json
import re
from typing import Any

from moto.iam.models import get_account_id_from
from moto.sqs.models import sqs_backends

from sandbox.aws_protocol import AwsRequest

# AWS's own limit.
MAX_WAIT_SECONDS = 20.0
POLL_SECONDS = 0.05
_WAIT = "WaitTimeSeconds"


def get_wait_seconds(call: AwsRequest) -> float:
    """Return the longest time that a call waits for messages; 0 for any other call."""
    value = call.params.get(_WAIT)
    if call.operation != "ReceiveMessage" or call.service != "sqs" or not isinstance(value, int):
        return 0.0
    return min(max(float(value), 0.0), MAX_WAIT_SECONDS)


def has_messages(call: AwsRequest) -> bool:
    """Return whether a call would get an answer at once: a message, or the error of a queue that is gone."""
    name = re.split("[/:]", str(call.params.get("QueueUrl", "")))[-1]
    queue = sqs_backends[get_account_id_from(call.access_key)][call.region].queues.get(name)
    return queue is None or bool(queue.messages)


def drop_wait(body: bytes) -> bytes:
    """Return the body of a call that no longer waits."""
    params: dict[str, Any] = json.loads(body)
    return json.dumps(params | {_WAIT: 0}).encode()
