"""Celery tasks that beat sends: the tick each second, and pruning."""

import logging
from contextlib import ExitStack
from typing import Any

from celery import shared_task

from delegates import tasks as delegates
from deployments.tasks import dispatch
from notifications import tasks as notifications
from web.clock import get_database_time
from web.retention import prune_group

logger = logging.getLogger(__name__)


@shared_task(name="ops.tasks.tick")
def tick(**_: Any) -> None:
    """Dispatch executions, look after delegates, see whether a notification is due.

    In one message: each costs more than most of this work. One that fails does not keep the others back.
    """
    with ExitStack() as steps:
        steps.callback(notifications.tick)
        steps.callback(delegates.tick)
        steps.callback(dispatch)


@shared_task(name="ops.tasks.prune")
def prune(*, group: str, **_: Any) -> None:
    """Delete the rows of one retention group that are older than they are kept."""
    if count := prune_group(group, get_database_time()):
        logger.info("Pruned %s rows of %s", count, group)
