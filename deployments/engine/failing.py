"""What happens when a step fails or is aborted: what is skipped, what is rolled back, what is said."""

from deployments.actions.base import ActionFailed, known_actions
from deployments.engine import slots
from deployments.engine.shared import Shared
from deployments.log import NewLine, store
from deployments.models import ActionRun, StepExecution
from deployments.states import TERMINAL, ActionState, Outcome, Status


def fail(shared: Shared, step: StepExecution, row: ActionRun | None, failure: ActionFailed) -> None:
    """The step has failed: say why, skip what follows, and roll the stage back (the default strategy)."""
    notes = {
        "code": failure.code,
        "message": failure.message,
        "step": step.identifier,
        "container": failure.container or None,
        "exit_code": failure.exit_code,
    }
    with shared.lease.commit():
        _say(shared, step, row.unit if row else "", failure.message.split("\n"))
        if row is not None:
            shared.change(
                row, state=ActionState.FAILED, ended_at=shared.world.now(), detail=failure.message[:512]
            )
            row.save(update_fields=[*shared.touched(row)])
        stop(shared, step, Status.FAILED)
        step.failure = notes
        step.save(update_fields=["failure"])
        shared.execution.failure = notes
        shared.execution.outcome = failure.outcome
        shared.execution.save(update_fields=["failure", "outcome"])
        begin_rollback(shared, ending=Status.FAILED)


def abort(shared: Shared, *, roll_back: bool, by: str) -> None:
    """A person wants it to stop: at once, and with or without a rollback; inside a commit."""
    step = shared.stage.steps.exclude(status__in=TERMINAL).order_by("section", "position").first()
    text = f"{by} aborted this execution" + (" and asked for a rollback" if roll_back else "")
    if step is not None:
        _say(shared, step, "", [text], level="warning")
        row = step.actions.filter(state=ActionState.STARTED).first()
        if row is not None and not roll_back:
            row.ended_at = shared.world.now()
            row.save(update_fields=["ended_at"])
        stop(shared, step, Status.ABORTED)
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
        _set_ending(shared, Status.ABORTED)


def begin_rollback(shared: Shared, *, ending: Status) -> None:
    """Turn round, if the stage has rollback steps; inside a commit."""
    rollback = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    if not rollback.exists():
        _set_ending(shared, ending)
        return
    shared.execution.rolling_back = True
    shared.execution.status_before_rollback = ending
    shared.execution.status = Status.ROLLING_BACK
    shared.execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])


def close_stage(shared: Shared, status: Status) -> None:
    """The stage is over: its slot is free for others."""
    with shared.lease.commit():
        shared.stage.status = status
        shared.stage.save(update_fields=["status"])
        slots.release(shared)


def _set_ending(shared: Shared, status: Status) -> None:
    shared.execution.ending = status
    shared.execution.rolling_back = False
    shared.execution.save(update_fields=["ending", "rolling_back"])


def stop(shared: Shared, step: StepExecution, status: Status) -> None:
    """End a step and skip whatever would have followed it; inside a commit."""
    step.status = status
    step.ended_at = shared.world.now()
    step.save(update_fields=["status", "ended_at"])
    step.actions.filter(state=ActionState.WAITING).exclude(name__in=_always()).update(
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


def _always() -> list[str]:
    return [name for name, action in known_actions().items() if action.runs_always]


def _say(shared: Shared, step: StepExecution, unit: str, lines: list[str], level: str = "error") -> None:
    now = shared.world.now()
    store(
        shared.execution.pk,
        [NewLine(now, step.pk, step.identifier, unit, level, line) for line in lines],
        mask=shared.mask,
    )
