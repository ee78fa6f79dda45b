"""The Celery task that beat sends each second."""

from typing import Any

from celery import shared_task

from delegates.tasks import tick as look_after_delegates
from deployments.tasks import dispatch


@shared_task(name="ops.tasks.tick")
def tick(**_: Any) -> None:
    """Dispatch executions and look after delegates: in one message, which costs more than most of its work."""
    try:
        dispatch()
    finally:
        look_after_delegates()
