"""Log fields of Celery tasks: those of the sender, which go with the message."""

from typing import Any, Final

from celery import signals

from guards.log_lines import get_handed_over_fields, parse_handed_over_fields, replace_log_fields

HEADER: Final = "slipway_log_fields"


def connect_signals() -> None:
    """Hand the fields over with each message from now on."""
    signals.before_task_publish.connect(send_log_fields)
    signals.task_prerun.connect(bind_task_fields)


def send_log_fields(headers: dict[str, Any], **_: Any) -> None:
    """Add the bound fields to the headers of a message."""
    if fields := get_handed_over_fields():
        headers[HEADER] = fields


def bind_task_fields(task_id: str, task: Any, **_: Any) -> None:
    """Bind the fields of the message, and the id of the task, instead of those of the task before."""
    sent = parse_handed_over_fields(getattr(task.request, HEADER, None))
    replace_log_fields({**sent, "celery_task": task_id})
