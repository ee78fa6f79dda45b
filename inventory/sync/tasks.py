"""Celery tasks that dispatch, run and prune instance sync."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from inventory.sync import retention
from inventory.sync.clusters import create_clusters, list_due_clusters, schedule_follow_ups
from inventory.sync.sync_scan import run_sync
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)

MAX_DISPATCHED_CLUSTERS = 100


@shared_task(name="inventory.sync.tasks.tick")
def tick(**_: Any) -> None:
    """Queue a sync of each cluster that is due."""
    try:
        now = get_database_time()
        create_clusters(now)
        schedule_follow_ups(now)
        for pk in list_due_clusters(now, MAX_DISPATCHED_CLUSTERS):
            sync_cluster.apply_async(kwargs={"cluster": pk}, expires=30)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No sync was sent out, the next tick tries again: %s", error)


@shared_task(name="inventory.sync.tasks.sync_cluster")
def sync_cluster(*, cluster: int, **_: Any) -> None:
    """Continue the sync of one cluster."""
    try:
        run_sync(cluster)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("A sync was cut short, the next tick goes on with it: %s", error)


@shared_task(name="inventory.sync.tasks.prune")
def prune(**_: Any) -> None:
    """Delete instances past their retention."""
    if deleted := retention.prune_instances(get_database_time()):
        logger.info("Pruned %s rows of what ran where", deleted)


def request_sync(pk: int) -> None:
    """Queue a sync now; without a broker, the next tick does."""
    try:
        sync_cluster.apply_async(kwargs={"cluster": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("The broker did not take a wake-up, the next tick will: %s", error)
