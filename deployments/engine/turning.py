"""How an execution turns from going forward to going back, or to its end; inside a commit."""

from django.db.models import QuerySet

from deployments.engine.approvals import withdraw
from deployments.engine.flow import ENDED_BADLY, runs_after_failure
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.work import stop_work
from deployments.models import ActionRun, StepExecution
from deployments.notifying import tell_rollback
from steps.actions.base import known_actions
from steps.states import TERMINAL, ActionState, Status


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
    tell_rollback(shared.execution, shared.mask)


def set_ending(shared: Shared, status: Status) -> None:
    """Head for the end, with this status."""
    shared.execution.ending = status
    shared.execution.rolling_back = False
    shared.execution.save(update_fields=["ending", "rolling_back"])


def stop(shared: Shared, step: StepExecution, status: Status) -> None:
    """End a step, stop those beside it, and skip whatever would have followed."""
    end(shared, step, status)
    stop_beside(shared, step)
    queued = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION, status=Status.QUEUED)
    _skip(queued)
    skip_later(shared, status)


def stop_beside(shared: Shared, step: StepExecution) -> None:
    """Stop the steps of other branches, as an abort does."""
    forward = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION)
    for other in forward.exclude(status__in=(*TERMINAL, Status.QUEUED)).exclude(pk=step.pk):
        say(
            shared,
            other,
            f"Step {other.name} is stopped together with step {step.name}",
            "warning",
        )
        end(shared, other, Status.ABORTED)


def skip_later(shared: Shared, status: Status) -> None:
    """Skip the stages after this one, except those that run after such an end."""
    for stage in shared.execution.stages.filter(position__gt=shared.stage.position):
        if status in ENDED_BADLY and runs_after_failure(stage):
            continue
        _skip(stage.steps.all())
        stage.status = Status.SKIPPED
        stage.save(update_fields=["status"])


def _skip(steps: QuerySet[StepExecution]) -> None:
    waiting = ActionRun.objects.filter(step__in=steps, state=ActionState.WAITING)
    waiting.update(state=ActionState.SKIPPED)
    steps.update(status=Status.SKIPPED)


def end(shared: Shared, step: StepExecution, status: Status) -> None:
    """End one step, what delegates still do for it, and skip the actions that it has not begun."""
    stop_work(step)
    withdraw(step)
    step.status, step.intervention, step.retry_at = status, None, None
    step.ended_at = shared.world.now()
    step.save(update_fields=["status", "intervention", "retry_at", "ended_at"])
    step.actions.filter(state=ActionState.WAITING).exclude(name__in=always()).update(
        state=ActionState.SKIPPED
    )


def always() -> list[str]:
    """The names of the actions that run however a step ended."""
    return [name for name, action in known_actions().items() if action.runs_always]
