"""What happens when a step fails or is aborted: what is said, and what is done about it."""

from deployments.engine import slots
from deployments.engine.flow import ENDED_BADLY
from deployments.engine.reacting import react
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.turning import begin_rollback, set_ending, skip_later, stop
from deployments.engine.work import stop_work
from deployments.models import ActionRun, StepExecution
from steps.actions.base import ActionFailed
from steps.failure_strategies import error_type, reaction_to
from steps.states import TERMINAL, ActionState, Outcome, Status


def fail(shared: Shared, step: StepExecution, row: ActionRun | None, failure: ActionFailed) -> None:
    """The step has failed: say why, and do what the pipeline says of such a failure."""
    message = shared.mask.text(failure.message)
    notes = {
        "code": failure.code,
        "message": message,
        "step": step.identifier,
        "container": failure.container or None,
        "exit_code": failure.exit_code,
        "outcome": failure.outcome,
    }
    say(shared, step, message, "error", row.unit if row else "")
    if row is not None:
        shared.change(row, state=ActionState.FAILED, ended_at=shared.world.now(), detail=message[:512])
    shared.change(step, failure=notes)
    if not _has_failed_before(shared):
        # What failed first is why the execution failed, whatever a later stage or step comes to.
        shared.change(shared.execution, failure=notes, outcome=failure.outcome)
    with shared.commit(reload=True):
        stop_work(step)
        react(shared, step, reaction_to(step.failure_strategies, _type_of(failure)))


def _has_failed_before(shared: Shared) -> bool:
    """Whether a stage or a step failed already, and its failure was not ignored."""
    rows = shared.rows
    if any(stage.status in ENDED_BADLY for stage in rows.stages):
        return True
    return any(step.status in ENDED_BADLY for stage in rows.stages for step in rows.steps_of(stage))


def _type_of(failure: ActionFailed) -> str:
    """A failure with a container, or one that AWS judged, is of what was deployed; unless time ran out."""
    if failure.outcome == "TIMED_OUT":
        return error_type("TIMED_OUT")
    return error_type(failure.code, was_judged=bool(failure.container) or failure.outcome != "FAILED")


def abort(shared: Shared, *, roll_back: bool, by: str) -> None:
    """A person wants it to stop: at once, and with or without a rollback; inside a commit."""
    forward = shared.stage.steps.filter(section=StepExecution.Section.EXECUTION).order_by("position")
    open_steps = forward.exclude(status__in=TERMINAL)
    step = open_steps.first()
    text = f"{by} aborted this execution" + (" and asked for a rollback" if roll_back else "")
    if step is not None:
        say(shared, step, text, "warning")
        if not roll_back:
            _tell_what_goes_on(shared, step)
            started = ActionRun.objects.filter(step__in=open_steps, state=ActionState.STARTED)
            started.update(ended_at=shared.world.now())
        stop(shared, step, Status.ABORTED)
    elif (last := forward.last()) is not None:
        # The stage has done its work and is not closed yet.
        say(shared, last, text, "warning")
        skip_later(shared, Status.ABORTED)
    shared.execution.outcome = Outcome.ABORTED
    shared.execution.failure = {
        "code": "ABORTED",
        "message": text,
        "step": step.identifier if step else None,
        "container": None,
        "exit_code": None,
    }
    shared.execution.save(update_fields=["outcome", "failure"])
    if roll_back:
        begin_rollback(shared, ending=Status.ABORTED)
    else:
        set_ending(shared, Status.ABORTED)


def _tell_what_goes_on(shared: Shared, step: StepExecution) -> None:
    """An abort alone stops Slipway, not ECS."""
    stage = shared.stage
    if stage.ecs_service and stage.deployment_id:
        text = (
            f"Nothing is undone: ECS goes on with deployment {stage.deployment_id} of Service "
            f"{stage.ecs_service}. Roll this execution back to bring back what ran before"
        )
        say(shared, step, text, "warning")


def close_stage(shared: Shared, status: Status) -> None:
    """The stage is over: its slot is free for others."""
    shared.change(shared.stage, status=status)
    with shared.commit():
        slots.release(shared)
