"""Celery tasks that beat sends: the tick each second, and pruning."""

import logging
from contextlib import ExitStack
from typing import Any

from celery import shared_task

from delegates import tasks as delegates
from deployments.tasks import dispatch
from notifications import tasks as notifications
from ops.retention_report import record_prune
from pipelines import tasks as pipelines
from web.clock import get_database_time
from web.epochs import advance_epoch
from web.http.outages import optional_write
from web.retention import prune_group

logger = logging.getLogger(__name__)


@shared_task(name="ops.tasks.tick")
def tick(**_: Any) -> None:
    """Dispatch executions, maintain delegates, look at triggers, send notifications, advance the epoch.

    One message is cheaper: most of the cost is the message. A failure does not stop the other parts.
    """
    with optional_write():
        advance_epoch()
    with ExitStack() as steps:
        steps.callback(notifications.tick)
        steps.callback(pipelines.tick)
        steps.callback(delegates.tick)
        steps.callback(dispatch)


@shared_task(name="ops.tasks.prune")
def prune(*, group: str, **_: Any) -> None:
    """Delete the expired rows of one retention group."""
    now = get_database_time()
    if count := prune_group(group, now):
        logger.info("Pruned %s rows of %s", count, group)
    record_prune(group, now)
