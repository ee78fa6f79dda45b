"""Celery tasks that sweep leases, route delegate tasks and run the built-in delegate."""

import logging
from typing import Any
from uuid import UUID

from celery import shared_task

from delegates import built_in_delegate
from delegates.event_queues.setups import advance_setup, list_due_setups
from delegates.models import DelegateTask
from delegates.protocol import leases, liveness, sessions
from delegates.retention import erase_old_secret_values
from delegates.tag_rows import repair_tags
from delegates.task_queue import route_waiting_tasks
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)


@shared_task(name="delegates.tasks.tick")
def tick(**_: Any) -> None:
    """Expire leases, route waiting tasks, and check the liveness of instances every five seconds."""
    try:
        now = get_database_time()
        if not built_in_delegate.is_built_in_alive(now):
            sessions.extend_leases_after_outage(now)
            built_in_delegate.record_built_in_heartbeat(now)
            liveness.record_silent_instances(now)
            liveness.archive_absent_delegates(now)
            repair_tags(now)
            erase_old_secret_values(now)
        # One query each on a partial index, which is usually empty.
        if DelegateTask.objects.filter(status=DelegateTask.Status.STARTED).exists():
            leases.abort_overdue_tasks(now)
            leases.sweep_expired_leases(now=now)
        if DelegateTask.objects.filter(status=DelegateTask.Status.QUEUED).exists():
            route_waiting_tasks(now)
            for task_id in built_in_delegate.list_offered_tasks(now):
                run_built_in.apply_async(kwargs={"task_id": str(task_id)}, expires=5)
        for setup_id in list_due_setups(now):
            advance_event_queue_setup.apply_async(kwargs={"setup_id": setup_id}, expires=5)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Delegate maintenance failed, the next tick retries: %s", error)


@shared_task(name="delegates.tasks.run_built_in")
def run_built_in(*, task_id: str, **_: Any) -> None:
    """Run one task that is offered to the built-in delegate."""
    built_in_delegate.run_offered_task(UUID(task_id))


@shared_task(name="delegates.tasks.advance_event_queue_setup")
def advance_event_queue_setup(*, setup_id: int, **_: Any) -> None:
    """Run one pass over a set-up of events."""
    try:
        advance_setup(setup_id, get_database_time())
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("A pass over a set-up of events failed, a later one follows: %s", error)
