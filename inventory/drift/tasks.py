"""The Celery tasks of drift: they send out what is due, and hold nothing."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from inventory.drift import pruning
from inventory.drift.clusters import due, enter_new, follow_deployments
from inventory.drift.looking import go_on
from web.clock import database_now
from web.outages import OUTAGES, is_outage

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 100


@shared_task(name="inventory.drift.tasks.tick")
def tick(**_: Any) -> None:
    """Send one message for each cluster whose look for drift is due."""
    try:
        now = database_now()
        enter_new(now)
        follow_deployments(now)
        for pk in due(now, MOST_AT_ONCE):
            look_at_cluster.apply_async(kwargs={"cluster": pk}, expires=30)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("No look for drift was sent out, the next tick tries again: %s", error)


@shared_task(name="inventory.drift.tasks.look_at_cluster")
def look_at_cluster(*, cluster: int, **_: Any) -> None:
    """Go on with the look for drift in one cluster."""
    try:
        go_on(cluster)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("A look for drift was cut short, the next tick goes on with it: %s", error)


@shared_task(name="inventory.drift.tasks.prune")
def prune(**_: Any) -> None:
    """Take away what is older than it is kept for."""
    if deleted := pruning.prune(database_now()):
        logger.info("Pruned %s rows of drift", deleted)


def look_soon(pk: int) -> None:
    """Go on with a cluster now rather than at the next tick; the tick comes anyway."""
    try:
        look_at_cluster.apply_async(kwargs={"cluster": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("The broker did not take a wake-up, the next tick will: %s", error)
