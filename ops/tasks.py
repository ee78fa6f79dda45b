"""Celery task that beat sends each second."""

from contextlib import ExitStack
from typing import Any

from celery import shared_task

from delegates import tasks as delegates
from deployments.tasks import dispatch
from notifications import tasks as notifications


@shared_task(name="ops.tasks.tick")
def tick(**_: Any) -> None:
    """Dispatch executions, look after delegates, see whether a notification is due.

    In one message: each costs more than most of this work. One that fails does not keep the others back.
    """
    with ExitStack() as steps:
        steps.callback(notifications.tick)
        steps.callback(delegates.tick)
        steps.callback(dispatch)
