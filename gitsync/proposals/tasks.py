"""Celery tasks of proposals."""

import logging
from typing import Any

from celery import shared_task
from kombu.exceptions import OperationalError

from gitsync.proposals import passes
from gitsync.tasks import request_pass
from web.clock import get_database_time
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)


def tick() -> None:
    """Send a message for each proposal that is due; the next tick repeats a lost one."""
    try:
        for pk in passes.list_due_proposals(get_database_time()):
            request_push(pk)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No proposal was pushed; the next tick does: %s", error)


def request_push(pk: str) -> None:
    """Request the push of a proposal before the next tick."""
    try:
        push_git_sync_proposal.apply_async(kwargs={"proposal": pk}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("Wake-up not published; the next tick does it: %s", error)


@shared_task(name="gitsync.proposals.tasks.push_git_sync_proposal")
def push_git_sync_proposal(*, proposal: str, **_: Any) -> None:
    """Try to push a proposal; a sync that follows its branch applies it at once."""
    try:
        if (sync := passes.advance_proposal(proposal, get_database_time())) is not None:
            request_pass(sync)
    except Exception as error:
        if is_outage(error):
            logger.warning("A push was cut short, a later tick repeats it: %s", error)
            return
        # The page must show the error after the last attempt.
        logger.exception("The push of a proposal failed with an unexpected error")
        passes.record_crash(proposal, error, get_database_time())
