"""Celery tasks that dispatch and run the scans of clusters, for sync and for drift."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from celery import shared_task
from django.db import transaction
from kombu.exceptions import OperationalError

from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import AwsEvent, ServiceEvent
from inventory.drift.drift_scan import DriftScan
from inventory.sync.announced_changes import record_events
from inventory.sync.scans.cluster_scan import ClusterScan
from inventory.sync.scans.runner import run_scan
from inventory.sync.sync_scan import SyncScan
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)

MAX_DISPATCHED_CLUSTERS = 100
_KINDS: Final[Mapping[str, type[ClusterScan]]] = {kind.OWNER: kind for kind in (SyncScan, DriftScan)}


@shared_task(name="inventory.tasks.tick")
def tick(*, kind: str, **_: Any) -> None:
    """Queue a scan of each cluster that is due."""
    try:
        now = get_database_time()
        _KINDS[kind].schedule(now)
        for pk in _KINDS[kind].list_due_clusters(now, MAX_DISPATCHED_CLUSTERS):
            scan_cluster.apply_async(kwargs={"kind": kind, "cluster": pk}, expires=30)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No %s was dispatched, the next tick tries again: %s", kind, error)


@shared_task(name="inventory.tasks.scan_cluster")
def scan_cluster(*, kind: str, cluster: int, **_: Any) -> None:
    """Continue the scan of one cluster."""
    try:
        run_scan(_KINDS[kind], cluster)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("A %s was cut short, the next tick continues it: %s", kind, error)


def sync_for_events(coverage: QueueCoverage, events: Sequence[AwsEvent], now: datetime) -> None:
    """Record what events of ECS announce, and sync the clusters that are due for it after the commit."""
    service_events = [event for event in events if isinstance(event, ServiceEvent)]
    for pk in record_events(coverage, service_events, now):
        transaction.on_commit(partial(queue_sync, pk))


def queue_sync(pk: int) -> None:
    """Queue a sync now; without a broker, the next tick does."""
    _request_scan(SyncScan.OWNER, pk)


def queue_drift_scan(pk: int) -> None:
    """Queue a drift scan now; without a broker, the next tick does."""
    _request_scan(DriftScan.OWNER, pk)


def _request_scan(kind: str, pk: int) -> None:
    try:
        scan_cluster.apply_async(kwargs={"kind": kind, "cluster": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick scans: %s", error)
