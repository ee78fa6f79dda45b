"""Executors of a run, who may not decide about it where an approval excludes them."""

from deployments.execution.planning.attempts import filter_attempts
from deployments.models import Execution, Interrupt
from pipelines.models import TriggerFiring


def list_executors(execution: Execution) -> set[int]:
    """Return the users who started, retried and redelivered the run, in all its attempts."""
    attempts = filter_attempts(execution)
    retries = Interrupt.objects.filter(execution__in=attempts.values("pk"), kind=Interrupt.Kind.RETRY)
    firings = TriggerFiring.objects.filter(execution_id__in=attempts.values("pk"))
    executors = {
        *attempts.values_list("started_by", flat=True),
        *retries.values_list("by", flat=True),
        *firings.values_list("redelivered_by", flat=True),
    }
    return {pk for pk in executors if pk is not None}
