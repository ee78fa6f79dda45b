"""Send deadline of write calls, per thread."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aws.errors import NotSent
from aws.operations import is_write

_thread_state = threading.local()


class SendDeadlinePassed(NotSent):
    """The call was not sent because the deadline for sending it had passed."""


@contextmanager
def send_deadline(deadline: float) -> Iterator[None]:
    """Inside the block, a write of this thread that would leave after `moment` raises `TooLate`.

    The moment is one of `time.monotonic`.
    """
    _thread_state.moment = deadline
    try:
        yield
    finally:
        del _thread_state.moment


def refuse_late_write(*, event_name: str, **more: Any) -> None:
    """For botocore's before-send: nothing that takes time is between this and the socket."""
    deadline = getattr(_thread_state, "moment", None)
    if deadline is None or time.monotonic() <= deadline:
        return
    _, service, operation = event_name.split(".", 2)
    if is_write(service, operation):
        raise SendDeadlinePassed("TooLate", "the deadline for sending it had passed", service, operation)
