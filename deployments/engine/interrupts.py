"""What people ask of an execution while it runs: rows that a look reads (rule 4)."""

from typing import Any

from deployments.models import Interrupt

ABORTS = (Interrupt.Kind.ABORT, Interrupt.Kind.ABORT_AND_ROLL_BACK)


def is_abort_waiting(execution_id: Any) -> bool:
    """Whether somebody wants this execution to stop and no look has taken it up yet."""
    return Interrupt.objects.filter(execution_id=execution_id, taken_at=None, kind__in=ABORTS).exists()
