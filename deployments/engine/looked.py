"""What is noted when a look ended by a mistake in the program itself."""

import traceback
from collections.abc import Sequence
from uuid import UUID

from deployments.models import Execution, Interrupt


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
