"""Headers of Celery messages: the log fields of the sender, and when it was sent."""

import time
from typing import Any, Final

from celery import signals

from guards.log_lines import get_propagated_fields, parse_propagated_fields, replace_log_fields
from web.work_delays import SENT_AT_HEADER

HEADER: Final = "slipway_log_fields"


def connect_signals() -> None:
    """Add the headers to each message from now on, and bind the log fields of each task."""
    signals.before_task_publish.connect(add_headers)
    signals.task_prerun.connect(bind_task_fields)


def add_headers(headers: dict[str, Any], **_: Any) -> None:
    """Add the time and the bound fields to the headers of a message."""
    headers[SENT_AT_HEADER] = time.time()
    if fields := get_propagated_fields():
        headers[HEADER] = fields


def bind_task_fields(task_id: str, task: Any, **_: Any) -> None:
    """Bind the fields of the message, and the id of the task, instead of those of the task before."""
    sent = parse_propagated_fields(getattr(task.request, HEADER, None))
    replace_log_fields({**sent, "celery_task": task_id})
