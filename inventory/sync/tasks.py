"""The Celery tasks of sync: they send out what is due, and hold nothing."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from inventory.sync import pruning
from inventory.sync.clusters import due, enter_new, follow_deployments
from inventory.sync.syncing import go_on
from web.clock import database_now
from web.outages import OUTAGES, is_outage

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 100


@shared_task(name="inventory.sync.tasks.tick")
def tick(**_: Any) -> None:
    """Send one message for each cluster whose sync is due."""
    try:
        now = database_now()
        enter_new(now)
        follow_deployments(now)
        for pk in due(now, MOST_AT_ONCE):
            sync_cluster.apply_async(kwargs={"cluster": pk}, expires=30)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("No sync was sent out, the next tick tries again: %s", error)


@shared_task(name="inventory.sync.tasks.sync_cluster")
def sync_cluster(*, cluster: int, **_: Any) -> None:
    """Go on with the sync of one cluster."""
    try:
        go_on(cluster)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("A sync was cut short, the next tick goes on with it: %s", error)


@shared_task(name="inventory.sync.tasks.prune")
def prune(**_: Any) -> None:
    """Take away what is older than it is kept for."""
    if deleted := pruning.prune(database_now()):
        logger.info("Pruned %s rows of what ran where", deleted)


def sync_soon(pk: int) -> None:
    """Go on with a cluster now rather than at the next tick; the tick comes anyway."""
    try:
        sync_cluster.apply_async(kwargs={"cluster": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("The broker did not take a wake-up, the next tick will: %s", error)
