"""The Celery tasks: they wake the engine and hold nothing (SAFETY, Celery)."""

import logging
from typing import Any
from uuid import UUID

from celery import shared_task
from kombu.exceptions import OperationalError

from deployments.engine.dispatch import Group, due_groups, look_at_group
from deployments.engine.looked import give_back, note_bug
from deployments.engine.provisions import free_old_plans
from deployments.kept_texts import free_unused
from web.clock import database_now
from web.outages import OUTAGES, is_outage

logger = logging.getLogger(__name__)


@shared_task(name="deployments.tasks.dispatch")
def dispatch(**_: Any) -> None:
    """Send one message for each group of executions that is due."""
    try:
        for group in due_groups():
            execution_ids = [str(pk) for pk in group.execution_ids]
            look_group.apply_async(kwargs={"execution_ids": execution_ids, "token": group.token}, expires=30)
    except OUTAGES as error:
        if not is_outage(error):
            raise
        logger.warning("Nothing was sent out, the next tick tries again: %s", error)


@shared_task(name="deployments.tasks.look_group")
def look_group(*, execution_ids: list[str], token: str = "", **_: Any) -> None:
    """Look at the executions of one group."""
    try:
        look_at_group(Group(tuple(UUID(pk) for pk in execution_ids), token))
    except Exception as error:
        if is_outage(error):
            # Nobody's mistake: whoever looks next takes up what is written.
            logger.warning("A look was cut short, another takes up where it was: %s", error)
            give_back([UUID(pk) for pk in execution_ids])
            return
        # Whatever the mistake is, its execution has to end and say so: it would be looked at again for ever.
        logger.exception("A look failed because of a mistake in Slipway")
        note_bug([UUID(pk) for pk in execution_ids], error)


@shared_task(name="deployments.tasks.prune")
def prune(**_: Any) -> None:
    """Drop what plans hold that nobody has applied in time, and texts that no run uses any more."""
    now = database_now()
    if freed := free_old_plans(now):
        logger.info("Dropped %s plans that nobody has applied", freed)
    if freed := free_unused(now):
        logger.info("Dropped %s texts that no run uses any more", freed)


def wake_soon(execution_id: UUID) -> None:
    """Look at one execution now rather than at the next tick; the tick comes anyway."""
    try:
        look_group.apply_async(kwargs={"execution_ids": [str(execution_id)]}, expires=30, retry=False)
    except (OSError, OperationalError) as error:
        logger.warning("The broker did not take a wake-up, the next tick will: %s", error)
