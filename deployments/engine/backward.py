"""Backward: the undos of a stage's steps, newest first, and the checklist that proves them (rule 12)."""

from datetime import timedelta

from deployments.engine import judging, reacting, stages_back
from deployments.engine.checklist import verify
from deployments.engine.leaving import give_up, leave_rest
from deployments.engine.shared import Shared
from deployments.engine.taking import take_turn
from deployments.engine.telling import say
from deployments.engine.undo_rows import UNIT, next_undo, partners
from deployments.engine.undoing import take_back
from deployments.models import ActionRun, StepExecution
from steps import conditions
from steps.states import Outcome, Status

KEPT_OUTCOMES = (Outcome.ROLLED_BACK_BY_AWS, Outcome.SUPERSEDED)


def advance(shared: Shared) -> timedelta | None:
    """One step of progress, of whichever current rollback step has its turn; None means go on at once."""
    current = shared.rows.flow_of(shared.stage, StepExecution.Section.ROLLBACK).current()
    if not current:
        _end(shared)
        return None
    return take_turn(shared, _apart(shared, current), _advance_step)


def _apart(shared: Shared, current: list[StepExecution]) -> list[StepExecution]:
    """Those that undo different things: what concerns one ECS service is undone one after the other."""
    if len(current) == 1:
        return current
    found: list[StepExecution] = []
    taken: set[str] = set()
    for step in current:
        undone = partners(shared, step)
        steps = {one.pk for one in undone}
        claims = (claim.key for claim in shared.claims if claim.step_id in steps)
        concerned = {*claims, *(f"step {one.pk}" for one in undone)}
        if not concerned & taken:
            found.append(step)
        taken |= concerned
    return found


def _advance_step(shared: Shared, step: StepExecution) -> timedelta | None:
    if step.status == Status.QUEUED:
        if not _is_skipped(shared, step):
            _begin(shared, step)
        return None
    row = next_undo(shared, step)
    if row is None:
        return verify(shared, step)
    if (step.intervention or {}).get("kind") == "NOT_RESTORED":
        return _wait_for_a_person(shared, step)
    if step.timeout_at is not None and shared.world.now() >= step.timeout_at:
        with shared.commit(reload=True):
            give_up(shared, step, row, "The rollback did not end within its time-out.")
        return None
    return take_back(shared, step, row)


def _is_skipped(shared: Shared, step: StepExecution) -> bool:
    """Whether its condition keeps a rollback from running; one that has no answer does not."""
    try:
        return judging.is_skipped(shared, step)
    except conditions.UnclearConditionError as unclear:
        text = f"The condition of {step.name} has no answer, so the rollback runs: {unclear}"
        say(shared, step, text, "warning", UNIT)
        shared.save()
        return False


def _begin(shared: Shared, step: StepExecution) -> None:
    now = shared.world.now()
    timeout_at = now + timedelta(seconds=step.timeout_seconds)
    shared.change(step, status=Status.RUNNING, started_at=now, timeout_at=timeout_at)
    cause = (shared.execution.failure or {}).get("message", "a person asked for it").split("\n")[0]
    say(shared, step, f"Rolling back: {cause}", "warning", UNIT)
    shared.save()


def _wait_for_a_person(shared: Shared, step: StepExecution) -> timedelta | None:
    if (left := reacting.time_left(shared, step)) is not None:
        return left
    with shared.commit(reload=True):
        say(shared, step, f"Nobody decided in time. {reacting.WORDS['LeaveRest']}", "warning", UNIT)
        reacting.go_on(shared, step)
        leave_rest(shared, step)
    return None


def _leave_what_was_skipped(shared: Shared) -> None:
    """What only skipped rollback steps would have undone stays as it is, and is said to; inside a commit."""
    skipped = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK, status=Status.SKIPPED)
    for step in skipped.order_by("position"):
        if next_undo(shared, step) is not None:
            leave_rest(shared, step, f"{step.name} was skipped {step.skipped_because}".strip())


def _end(shared: Shared) -> None:
    execution = shared.execution
    with shared.commit(reload=True):
        _leave_what_was_skipped(shared)
    rollbacks = StepExecution.objects.filter(
        stage__execution=execution, section=StepExecution.Section.ROLLBACK
    )
    failed = rollbacks.filter(status=Status.FAILED).exists()
    with shared.commit(reload=True):
        if stages_back.go_further_back(shared):
            return
        all_rows = ActionRun.objects.filter(step__stage__execution=execution)
        execution.ending = stages_back.after_rollback(execution, all_rows)
        execution.rolling_back = False
        is_kept = execution.outcome in KEPT_OUTCOMES
        if not failed and stages_back.is_all_undone(all_rows) and not is_kept:
            execution.outcome = Outcome.ROLLED_BACK
        execution.save(update_fields=["ending", "rolling_back", "outcome"])
