"""A moment after which a write may not leave this process any more."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aws.errors import NotSent
from aws.names import is_write

_of_this_thread = threading.local()


class TooLate(NotSent):
    """The call was not sent because the moment to send it had passed."""


@contextmanager
def sent_before(moment: float) -> Iterator[None]:
    """Inside the block, a write of this thread that would leave after `moment` raises `TooLate`.

    The moment is one of `time.monotonic`.
    """
    _of_this_thread.moment = moment
    try:
        yield
    finally:
        del _of_this_thread.moment


def refuse_if_late(*, event_name: str, **more: Any) -> None:
    """For botocore's before-send: nothing that takes time is between this and the socket."""
    moment = getattr(_of_this_thread, "moment", None)
    if moment is None or time.monotonic() <= moment:
        return
    _, service, operation = event_name.split(".", 2)
    if is_write(service, operation):
        raise TooLate("TooLate", "the moment to send it had passed", service, operation)
