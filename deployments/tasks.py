"""Celery tasks that dispatch and reconcile executions."""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from celery import shared_task
from django.db import transaction
from kombu.exceptions import OperationalError

from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import AwsEvent, ServiceEvent
from deployments.engine import alarm_wakes, event_wakes
from deployments.engine.dispatch import ExecutionBatch, claim_due_batches, reconcile_batch
from deployments.engine.reconcile import record_crash, release_leases
from deployments.journal.hidden_lines import show_hidden_lines
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_interruption, is_outage

logger = logging.getLogger(__name__)


@shared_task(name="deployments.tasks.dispatch")
def dispatch(**_: Any) -> None:
    """Send one message for each group of executions that is due."""
    try:
        for group in claim_due_batches():
            execution_ids = [str(pk) for pk in group.execution_ids]
            reconcile_batch_task.apply_async(
                kwargs={"execution_ids": execution_ids, "token": group.token}, expires=30
            )
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Due executions not dispatched; the next tick retries: %s", error)


@shared_task(name="deployments.tasks.reconcile_batch_task")
def reconcile_batch_task(*, execution_ids: list[str], token: str = "", **_: Any) -> None:
    """Reconcile the executions of one batch."""
    try:
        reconcile_batch(ExecutionBatch(tuple(UUID(pk) for pk in execution_ids), token))
    except Exception as error:
        if is_interruption(error):
            # An outage, or a call that hangs, is no fault of the execution: the next pass continues.
            logger.warning("Reconcile pass interrupted by an outage or its time limit: %s", error)
            release_leases([UUID(pk) for pk in execution_ids])
            return
        # The execution must end with the error; otherwise it would be reconciled forever.
        logger.exception("Reconcile pass failed with an unexpected error")
        record_crash([UUID(pk) for pk in execution_ids], error)


@shared_task(name="deployments.tasks.show_hidden_log_lines")
def show_hidden_log_lines(**_: Any) -> None:
    """Append hidden log lines whose secrets can be read again."""
    try:
        show_hidden_lines(get_database_time())
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Hidden log lines wait for the next attempt: %s", error)


def wake_for_events(coverage: QueueCoverage, events: Sequence[AwsEvent], now: datetime) -> None:
    """Record events at the executions that they concern, and dispatch those that are due after the commit."""
    service_events = [event for event in events if isinstance(event, ServiceEvent)]
    is_due = event_wakes.record_events(coverage, service_events, now)
    if alarm_wakes.record_alarms(coverage, events, now) or is_due:
        transaction.on_commit(_request_dispatch)


def poll_without_events(coverage: QueueCoverage, now: datetime) -> None:
    """Let executions poll whose events come no more."""
    if event_wakes.end_coverage(coverage, now):
        transaction.on_commit(_request_dispatch)


def _request_dispatch() -> None:
    try:
        dispatch.apply_async(expires=3, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick dispatches: %s", error)


def request_reconcile(execution_id: UUID) -> None:
    """Request a reconcile pass before the next tick, which would do it anyway."""
    try:
        reconcile_batch_task.apply_async(
            kwargs={"execution_ids": [str(execution_id)]}, expires=30, retry=False
        )
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick dispatches: %s", error)
