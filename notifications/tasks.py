"""Celery task that sends notifications."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from notifications import outbox_sender
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)


@shared_task(name="notifications.tasks.send_due")
def send_due(**_: Any) -> None:
    """Send the due notifications, unless another worker does."""
    try:
        outbox_sender.send_due_notifications()
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Notifications were not sent, the next tick tries again: %s", error)


def tick() -> None:
    """Send a message if something is due, for a process that has time to wait for receivers."""
    try:
        if outbox_sender.has_due_notifications(get_database_time()):
            request_send()
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Notifications were not looked for, the next tick tries again: %s", error)


def request_send() -> None:
    """Request a send before the next tick."""
    try:
        send_due.apply_async(expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick sends: %s", error)
