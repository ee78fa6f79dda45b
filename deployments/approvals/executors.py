"""Executors of a run, who may not decide about it where an approval excludes them.

They are the users who started, retried or redelivered it, in any of its attempts. A run is known by the key
of its first attempt.
"""

from collections.abc import Collection
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from deployments.models import Execution, Interrupt
from pipelines.models import TriggerFiring
from rbac.models import User


def list_executors(execution: Execution) -> set[int]:
    """Return the executors of the run of an execution."""
    return {user for _, user in list_run_executors({execution.first_attempt_pk}) if user is not None}


def list_run_executors(runs: Collection[UUID]) -> set[tuple[UUID | None, int | None]]:
    """Return the runs with their executors; three queries for any number of runs."""
    attempts = Execution.objects.filter(Q(pk__in=runs) | Q(first_attempt__in=runs))
    rows = list(attempts.values_list("pk", "first_attempt", "started_by_id"))
    run_of: dict[UUID | None, UUID] = {pk: first_attempt or pk for pk, first_attempt, _ in rows}
    retries = Interrupt.objects.filter(execution__in=run_of, kind=Interrupt.Kind.RETRY)
    redelivered = TriggerFiring.objects.filter(execution_id__in=run_of)
    users = [
        *((pk, started_by) for pk, _, started_by in rows),
        *retries.values_list("execution_id", "by_id"),
        *redelivered.values_list("execution_id", "redelivered_by_id"),
    ]
    return {(run_of[pk], user) for pk, user in users}


def filter_executed_attempts(principal: User) -> QuerySet[Execution]:
    """Return the attempts of the outer `run` that make a user one of its executors."""
    retried = Interrupt.objects.filter(execution=OuterRef("pk"), by=principal, kind=Interrupt.Kind.RETRY)
    redelivered = TriggerFiring.objects.filter(execution_id=OuterRef("pk"), redelivered_by=principal)
    attempts = Execution.objects.filter(Q(pk=OuterRef("run")) | Q(first_attempt=OuterRef("run")))
    return attempts.filter(Q(started_by=principal) | Exists(retried) | Exists(redelivered))
