"""Celery tasks that beat sends: the tick, upgrades of delegates, pruning; passes over acceptance runs."""

import logging
from contextlib import ExitStack
from typing import Any

from celery import shared_task

from delegates import tasks as delegates
from deployments.delegate_installs.automatic_upgrades import finish_upgrades, start_due_upgrades
from deployments.tasks import dispatch
from gitsync import tasks as gitsync
from gitsync.proposals import tasks as proposals
from notifications import tasks as notifications
from ops.acceptance.runs import advance_run, list_due_runs
from ops.retention_report import record_prune
from pipelines import tasks as pipelines
from web.clock import get_database_time
from web.epochs import advance_epoch
from web.http.outages import OUTAGE_ERRORS, is_outage, optional_write
from web.retention import prune_group

logger = logging.getLogger(__name__)


@shared_task(name="ops.tasks.tick")
def tick(**_: Any) -> None:
    """Dispatch what is due, look after all that waits for a time, and advance the epoch.

    One message is cheaper: most of the cost is the message. A failure does not stop the other parts.
    """
    with optional_write("the epoch of the database"):
        advance_epoch()
    with ExitStack() as steps:
        steps.callback(continue_acceptance_runs)
        steps.callback(gitsync.tick)
        steps.callback(proposals.tick)
        steps.callback(notifications.tick)
        steps.callback(pipelines.tick)
        steps.callback(delegates.tick)
        steps.callback(dispatch)


def continue_acceptance_runs() -> None:
    """Send a message for each acceptance run that is due; the next tick repeats a lost one."""
    try:
        for pk in list_due_runs(get_database_time()):
            advance_acceptance_run.apply_async(kwargs={"run": pk}, expires=30)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("No acceptance run was continued; the next tick does: %s", error)


@shared_task(name="ops.tasks.advance_acceptance_run")
def advance_acceptance_run(*, run: int, **_: Any) -> None:
    """Make one pass over an acceptance run."""
    advance_run(run, get_database_time())


@shared_task(name="ops.tasks.upgrade_delegates")
def upgrade_delegates(**_: Any) -> None:
    """Start the automatic upgrades of delegates whose windows are open, and record those that have ended."""
    try:
        now = get_database_time()
        finish_upgrades(now)
        start_due_upgrades(now)
    except OUTAGE_ERRORS as error:
        if not is_outage(error):
            raise
        logger.warning("Upgrades of delegates wait for the next attempt: %s", error)


@shared_task(name="ops.tasks.prune")
def prune(*, group: str, **_: Any) -> None:
    """Delete the expired rows of one retention group."""
    now = get_database_time()
    if count := prune_group(group, now):
        logger.info("Pruned %s rows of %s", count, group)
    record_prune(group, now)
