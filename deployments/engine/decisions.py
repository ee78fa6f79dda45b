"""What a person decided about a step that waits; inside the commit that takes the wish up (rule 4)."""

from collections.abc import Callable
from datetime import timedelta

from deployments.engine import reacting
from deployments.engine.again import next_attempt
from deployments.engine.leaving import leave, leave_rest
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.engine.undo_rows import next_undo
from deployments.interventions import LATE, choices_of
from deployments.models import Interrupt, StepExecution
from steps.actions.base import known_actions
from steps.failure_strategies import Reaction, error_type, reaction_to
from steps.states import ActionState, Outcome, Status

_REACTIONS = {
    Interrupt.Kind.IGNORE: "Ignore",
    Interrupt.Kind.MARK_AS_SUCCESS: "MarkAsSuccess",
    Interrupt.Kind.ABORT: "Abort",
    Interrupt.Kind.ROLL_BACK: "StageRollback",
}


def decide(shared: Shared, interrupt: Interrupt) -> str:
    """Do what a person decided about the step that the interrupt names."""
    step = shared.stage.steps.filter(identifier=interrupt.step).first()
    if step is None or shared.execution.is_over or interrupt.kind not in choices_of(step):
        return LATE
    by = interrupt.by.get_username() if interrupt.by else "Somebody"
    say(shared, step, f"{by} decided about step {step.name}: {_WORDS[interrupt.kind]}", "warning")
    if step.intervention is not None:
        reacting.go_on(shared, step)
    if step.section == StepExecution.Section.ROLLBACK:
        _decide_backward(shared, step, interrupt)
    else:
        _DECISIONS.get(interrupt.kind, _react)(shared, step, interrupt)
    return f"Decided: {_WORDS[interrupt.kind]}."


def _decide_backward(shared: Shared, step: StepExecution, interrupt: Interrupt) -> None:
    """About an undo that did not succeed: three more tries, on without it, or not one undo more."""
    step.timeout_at = shared.world.now() + timedelta(seconds=step.timeout_seconds)
    step.save(update_fields=["timeout_at"])
    row = next_undo(shared, step)
    if interrupt.kind == Interrupt.Kind.ABORT:
        leave_rest(shared, step)
    elif interrupt.kind == Interrupt.Kind.IGNORE and row is not None:
        leave(shared, row)


def _react(shared: Shared, step: StepExecution, interrupt: Interrupt) -> None:
    reacting.react(shared, step, Reaction(_REACTIONS[Interrupt.Kind(interrupt.kind)]))


def _retry(shared: Shared, step: StepExecution, interrupt: Interrupt) -> None:
    """The next attempt, with as many retries by itself as at first."""
    step.retries = 0
    step.save(update_fields=["retries"])
    next_attempt(step)
    reacting.forget_failure(shared, step)


def _skip(shared: Shared, step: StepExecution, interrupt: Interrupt) -> None:
    """Go on without it. Nobody has seen how it ended, so nobody may say that it ended well.

    Time that a step lets pass does no harm where it is cut short.
    """
    if step.failure is None and not _only_lets_time_pass(step):
        step.failure = {
            "code": "SKIPPED",
            "message": "The step was skipped while it waited: nobody has seen how it ended.",
            "step": step.identifier,
            "container": None,
            "exit_code": None,
        }
        step.save(update_fields=["failure"])
        reacting.forget_failure(shared, step)
    reacting.forget_failure(shared, step, outcome=False)
    reacting.end_step(shared, step, Status.SKIPPED)


def _only_lets_time_pass(step: StepExecution) -> bool:
    names = step.actions.filter(state=ActionState.STARTED).values_list("name", flat=True)
    return bool(names) and all(known_actions()[name].may_be_cut_short for name in names)


def _mark_as_failure(shared: Shared, step: StepExecution, interrupt: Interrupt) -> None:
    """The step fails as its pipeline wants it for failures that people mark; else nothing is undone."""
    marked = [one for one in step.failure_strategies if "UserMarkedFailure" in one["errors"]]
    error = error_type("MARKED_AS_FAILURE")
    shared.execution.outcome = shared.execution.outcome or Outcome.FAILED
    shared.execution.save(update_fields=["outcome"])
    reacting.react(shared, step, reaction_to(marked, error) if marked else Reaction("MarkAsFailure"))


_DECISIONS: dict[str, Callable[[Shared, StepExecution, Interrupt], None]] = {
    Interrupt.Kind.MARK_AS_FAILURE: _mark_as_failure,
    Interrupt.Kind.RETRY: _retry,
    Interrupt.Kind.SKIP: _skip,
}
_WORDS: dict[str, str] = {
    Interrupt.Kind.ABORT: "abort",
    Interrupt.Kind.IGNORE: "ignore the failure",
    Interrupt.Kind.MARK_AS_FAILURE: "mark as failure",
    Interrupt.Kind.MARK_AS_SUCCESS: "mark as success",
    Interrupt.Kind.RETRY: "try it again",
    Interrupt.Kind.ROLL_BACK: "roll the stage back",
    Interrupt.Kind.SKIP: "skip it",
}
