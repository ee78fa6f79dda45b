"""What is done after a look that did not come to its end: by a mistake in the program, or by an outage."""

import time
import traceback
from collections.abc import Sequence
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.utils import timezone

from deployments.engine.look import this_process
from deployments.models import Execution, Interrupt
from web.outages import OUTAGES

GIVE_BACK_WITHIN = 10.0


def note_bug(execution_ids: Sequence[UUID], error: Exception) -> None:
    """Count the mistake against the execution whose look was under way; it ends at its next look.

    Its lease runs out by itself, so the next look comes within a minute.
    """
    where = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__} in {where.name}: {error}"[:255]
    looked_at = Execution.objects.filter(pk__in=execution_ids, look_until__isnull=False).order_by(
        "-look_until"
    )
    execution = looked_at.first()
    if execution is None:
        return
    waiting = Interrupt.objects.filter(execution=execution, kind=Interrupt.Kind.FAIL)
    if waiting.filter(taken_at=None).exists():
        return
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.FAIL, answer=text)


def give_back(execution_ids: Sequence[UUID], *, within: float = GIVE_BACK_WITHIN) -> bool:
    """Give up the leases of this process at once, so that the next tick takes up what an outage cut short.

    Tries for `within` seconds; False if the database stayed away, in which case the leases run out.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            # The fence rises: nothing of the look that was cut short can be written any more.
            Execution.objects.filter(
                pk__in=execution_ids, look_owner=this_process(), look_until__isnull=False
            ).update(look_until=None, look_at=timezone.now(), nudged_until=None, fence=F("fence") + 1)
            return True
        except OUTAGES:
            connection.close()
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.5)
