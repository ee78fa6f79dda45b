"""How an execution turns from going forward to going back, or to its end; inside a commit."""

from deployments.actions.base import known_actions
from deployments.engine.approvals import withdraw
from deployments.engine.shared import Shared
from deployments.engine.work import stop_work
from deployments.models import StepExecution
from deployments.states import ActionState, Status


def begin_rollback(shared: Shared, *, ending: Status) -> None:
    """Turn round, if the stage has rollback steps."""
    rollback = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    if not rollback.exists():
        set_ending(shared, ending)
        return
    shared.execution.rolling_back = True
    shared.execution.status_before_rollback = ending
    shared.execution.status = Status.ROLLING_BACK
    shared.execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])


def set_ending(shared: Shared, status: Status) -> None:
    """Head for the end, with this status."""
    shared.execution.ending = status
    shared.execution.rolling_back = False
    shared.execution.save(update_fields=["ending", "rolling_back"])


def stop(shared: Shared, step: StepExecution, status: Status) -> None:
    """End a step, what delegates still do for it, and skip whatever would have followed it."""
    stop_work(step)
    withdraw(step)
    step.status, step.intervention, step.retry_at = status, None, None
    step.ended_at = shared.world.now()
    step.save(update_fields=["status", "intervention", "retry_at", "ended_at"])
    step.actions.filter(state=ActionState.WAITING).exclude(name__in=always()).update(
        state=ActionState.SKIPPED
    )
    later = shared.execution.stages.filter(position__gt=shared.stage.position)
    for stage in (shared.stage, *later):
        queued = stage.steps.filter(section=StepExecution.Section.EXECUTION, status=Status.QUEUED)
        for skipped in queued:
            skipped.actions.filter(state=ActionState.WAITING).update(state=ActionState.SKIPPED)
        queued.update(status=Status.SKIPPED)
        if stage != shared.stage:
            stage.steps.update(status=Status.SKIPPED)
    later.update(status=Status.SKIPPED)


def always() -> list[str]:
    """The names of the actions that run however a step ended."""
    return [name for name, action in known_actions().items() if action.runs_always]
