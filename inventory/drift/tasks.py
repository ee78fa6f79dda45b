"""Celery tasks that dispatch and run drift scans, and prune resolved drift."""

import logging
from datetime import datetime, timedelta
from typing import Any

from celery import shared_task
from django.db.models import QuerySet
from kombu.exceptions import OperationalError

from delegates.models import DelegateTask
from delegates.retention import delete_in_batches
from inventory.drift.clusters import create_cluster_scans, list_due_clusters, schedule_follow_ups
from inventory.drift.drift_scan import DriftScan, run_drift_scan
from inventory.models.adoption import Adoption
from inventory.models.drift import Drift, TaskDefinitionRevision
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

RESOLVED_DRIFT_RETENTION = timedelta(days=90)
REVISION_RETENTION = timedelta(days=30)
# What was read back and nobody has taken over; it holds the values of environments.
ADOPTION_RETENTION = timedelta(days=1)
DELEGATE_TASK_RETENTION = timedelta(minutes=15)


def prune_drift(now: datetime) -> int:
    """Delete what is older than it is kept for, a part at a time, and say how many rows went."""
    return sum(delete_in_batches(rows) for rows in _list_expired(now))


def _list_expired(now: datetime) -> list[QuerySet[Any]]:
    asked = DelegateTask.objects.filter(owner=DriftScan.OWNER).exclude(status__in=DelegateTask.OPEN)
    return [
        asked.filter(finished_at__lt=now - DELEGATE_TASK_RETENTION),
        Drift.objects.filter(resolved_at__lt=now - RESOLVED_DRIFT_RETENTION),
        TaskDefinitionRevision.objects.filter(used_at__lt=now - REVISION_RETENTION),
        Adoption.objects.exclude(state=Adoption.State.ADOPTED).filter(
            requested_at__lt=now - ADOPTION_RETENTION
        ),
    ]


logger = logging.getLogger(__name__)
MAX_DISPATCHED_CLUSTERS = 100


@shared_task(name="inventory.drift.tasks.tick")
def tick(**_: Any) -> None:
    """Queue a scan of each cluster that is due."""
    try:
        now = get_database_time()
        create_cluster_scans(now)
        schedule_follow_ups(now)
        for pk in list_due_clusters(now, MAX_DISPATCHED_CLUSTERS):
            scan_cluster.apply_async(kwargs={"cluster": pk}, expires=30)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No look for drift was sent out, the next tick tries again: %s", error)


@shared_task(name="inventory.drift.tasks.scan_cluster")
def scan_cluster(*, cluster: int, **_: Any) -> None:
    """Continue the drift scan of one cluster."""
    try:
        run_drift_scan(cluster)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("A look for drift was cut short, the next tick goes on with it: %s", error)


@shared_task(name="inventory.drift.tasks.prune")
def prune(**_: Any) -> None:
    """Delete drift past its retention."""
    if deleted := prune_drift(get_database_time()):
        logger.info("Pruned %s rows of drift", deleted)


def request_scan(pk: int) -> None:
    """Queue a scan now; without a broker, the next tick does."""
    try:
        scan_cluster.apply_async(kwargs={"cluster": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("The broker did not take a wake-up, the next tick will: %s", error)
