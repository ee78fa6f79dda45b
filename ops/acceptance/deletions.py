"""Deletion of a run in AWS and in Slipway, a pass at a time, so that any worker can continue it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from deployments.execution.operations import abort_execution, end_restored_execution
from deployments.models import Execution
from ops.acceptance.leftovers import (
    list_draining_services,
    list_leftover_services,
    request_aws_deletion,
)
from ops.acceptance.resources import RunKey, delete_disposable_rows, list_leftover_runs
from ops.acceptance.targets import AcceptanceTarget
from ops.models import AcceptanceRun
from rbac.models import User
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time
from web.http.problems import Conflict

POLL_SECONDS: Final = 5.0
MAX_ABORT_LENGTH: Final = timedelta(minutes=45)
MAX_DRAIN_LENGTH: Final = timedelta(minutes=10)


@dataclass
class Deletion:
    """Position of a deletion; `left` has a sentence for each resource that stays.

    `draining` are the ECS services that AWS deletes when their tasks have stopped.
    """

    run: str
    ends_at: str = ""
    is_requested: bool = False
    draining: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    is_over: bool = False

    def is_late(self, now: datetime) -> bool:
        return now >= datetime.fromisoformat(self.ends_at)


def advance_deletion(deletion: Deletion, *, actor: User, target: AcceptanceTarget, now: datetime) -> None:
    """Abort open executions of a run, then delete its resources in AWS, then its rows.

    Each pass may be repeated. The rows stay while something is left in AWS: they lead a later deletion to it.
    """
    run = RunKey(deletion.run)
    if not deletion.is_requested:
        deletion.ends_at = deletion.ends_at or (now + MAX_ABORT_LENGTH).isoformat()
        if _abort_open_executions(actor, run) and not deletion.is_late(now):
            return
        deletion.draining, deletion.left = request_aws_deletion(target.caller, target.cluster, run)
        deletion.is_requested, deletion.ends_at = True, (now + MAX_DRAIN_LENGTH).isoformat()
    deletion.draining, problems = list_draining_services(target.caller, target.cluster, deletion.draining)
    deletion.left += problems
    if deletion.draining and not deletion.is_late(now):
        return
    deletion.left += [
        f"The service {name} still drains. AWS deletes it when its tasks have stopped."
        for name in deletion.draining
    ]
    if not deletion.left:
        delete_disposable_rows(actor=actor, run=run)
    deletion.is_over = True


def delete_run(
    *, actor: User, target: AcceptanceTarget, run: RunKey, pause: Callable[[float], None]
) -> list[str]:
    """Delete a run in this process, and return what is left."""
    deletion = Deletion(run.id)
    while True:
        advance_deletion(deletion, actor=actor, target=target, now=get_database_time())
        if deletion.is_over:
            return deletion.left
        pause(POLL_SECONDS)


def find_leftover_runs(target: AcceptanceTarget) -> list[RunKey]:
    """Return the ended runs that have something in Slipway or in the cluster. Raises `AwsError`."""
    services = list_leftover_services(target.caller, target.cluster)
    keys = {service.run.id for service in services} | {run.id for run in list_leftover_runs(target)}
    keys -= set(AcceptanceRun.objects.filter(key__in=keys, ended_at=None).values_list("key", flat=True))
    return [RunKey(key) for key in sorted(keys)]


def _abort_open_executions(actor: User, run: RunKey) -> bool:
    """Request the abort of the executions that still run, and return whether there are any."""
    executions = Execution.objects.filter(pipeline__identifier__startswith=run.identifier)
    open_executions = list(executions.exclude(status__in=TERMINAL_STATUSES))
    for execution in open_executions:
        # One that is ending already cannot be aborted.
        with suppress(Conflict):
            if execution.restored_at is None:
                abort_execution(actor=actor, execution=execution)
            else:
                end_restored_execution(actor=actor, execution=execution)
    return bool(open_executions)
