"""The Celery tasks of delegates: a look each second at what nobody did, and the workers' own tasks."""

import logging
from typing import Any
from uuid import UUID

from celery import shared_task

from delegates.models import DelegateTask
from delegates.offers import route_waiting
from delegates.protocol import built_in, leases, lives, outage, pruning
from web.clock import database_now
from web.outages import OUTAGES, is_outage

logger = logging.getLogger(__name__)


@shared_task(name="delegates.tasks.tick")
def tick(**_: Any) -> None:
    """Take tasks from who lost them, offer what waits, and each five seconds see who is not heard."""
    try:
        now = database_now()
        if not built_in.is_heard(now):
            outage.forgive(now)
            built_in.beat(now)
            lives.look_after(now)
        # One question each, answered by a partial index, where nearly always nothing is under way.
        if DelegateTask.objects.filter(status=DelegateTask.Status.STARTED).exists():
            leases.stop_overdue(now)
            leases.sweep(now=now)
        if DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED).exists():
            route_waiting(now)
            for task_id in built_in.offered(now):
                run_built_in.apply_async(kwargs={"task_id": str(task_id)}, expires=5)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("Delegates were not looked after, the next tick tries again: %s", error)


@shared_task(name="delegates.tasks.run_built_in")
def run_built_in(*, task_id: str, **_: Any) -> None:
    """Do one task that was offered to the built-in delegate."""
    built_in.run(UUID(task_id))


@shared_task(name="delegates.tasks.prune")
def prune(**_: Any) -> None:
    """Take away what is older than it is kept for."""
    if deleted := pruning.prune(database_now()):
        logger.info("Pruned %s rows of delegates", deleted)
