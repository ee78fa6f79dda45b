"""Celery tasks of Git syncs."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from gitsync import passes
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)


def tick() -> None:
    """Send a message for each sync that is due; the next tick repeats a lost one."""
    try:
        for pk in passes.list_due_syncs(get_database_time()):
            request_pass(pk)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No Git sync was continued; the next tick does: %s", error)


def request_pass(pk: int) -> None:
    """Request a pass before the next tick."""
    try:
        advance_git_sync.apply_async(kwargs={"sync": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick does it: %s", error)


@shared_task(name="gitsync.tasks.advance_git_sync")
def advance_git_sync(*, sync: int, **_: Any) -> None:
    """Make one pass over a Git sync."""
    try:
        passes.advance_sync(sync, get_database_time())
    except Exception as error:
        if is_outage(error):
            logger.warning("A Git sync was cut short, a later tick repeats it: %s", error)
            return
        # The page must show the error; otherwise the pass would be repeated without a trace.
        logger.exception("A Git sync failed with an unexpected error")
        passes.record_crash(sync, error, get_database_time())
