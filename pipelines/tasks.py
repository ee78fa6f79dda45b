"""Celery tasks of triggers."""

import logging
import time
from typing import Any, Final
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from pipelines.triggers import clock, firings, looks
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_interruption, is_outage

# Celery interrupts a message after 45 seconds, and with a slow database one run may take many of them.
START_WITHIN_SECONDS: Final = 10
logger = logging.getLogger(__name__)


@shared_task(name="pipelines.tasks.process_firings")
def process_firings(**_: Any) -> None:
    """Write the events of times that have come, and turn the waiting firings into runs.

    The firings for which there is no time stay due.
    """
    try:
        clock.create_due_events(get_database_time())
        started = time.monotonic()
        for pk in firings.list_due_firings(get_database_time()):
            _process_firing(pk)
            if time.monotonic() - started >= START_WITHIN_SECONDS:
                break
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Firings of triggers wait, the next tick tries again: %s", error)


def _process_firing(pk: UUID) -> None:
    try:
        firings.process_firing(pk, get_database_time())
    except Exception as error:
        if is_interruption(error):
            raise
        # The firing must end with the error; otherwise it would be tried again and again.
        logger.exception("A firing of a trigger failed with an unexpected error")
        firings.record_crash(pk, error)


@shared_task(name="pipelines.tasks.look_at_watch")
def look_at_watch(*, watch: int, **_: Any) -> None:
    """Look at what a trigger watches, and write the events of what is new there."""
    try:
        if looks.look(watch, get_database_time()):
            request_firings()
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("A trigger could not look, the next tick tries again: %s", error)
    except Exception as error:
        logger.exception("A look of a trigger failed with an unexpected error")
        looks.record_crash(watch, error)


def tick() -> None:
    """Send a message if a firing waits, or the time of a trigger has come, and one for each due watch."""
    try:
        now = get_database_time()
        for pk in looks.list_due_watches(now):
            look_at_watch.apply_async(kwargs={"watch": pk}, expires=30)
        if firings.has_due_firings(now) or clock.has_due_triggers(now):
            request_firings()
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Triggers were not looked at, the next tick tries again: %s", error)


def request_firings() -> None:
    """Request the work on waiting firings before the next tick."""
    try:
        process_firings.apply_async(expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick does it: %s", error)
