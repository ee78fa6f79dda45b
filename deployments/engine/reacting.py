"""What is done about a step that failed, as its pipeline or a person decided; inside a commit."""

from collections.abc import Callable
from datetime import datetime, timedelta

from deployments.engine.flow import flow_of
from deployments.engine.shared import Shared
from deployments.engine.standing import settle
from deployments.engine.telling import say
from deployments.engine.turning import always, begin_rollback, end, set_ending, stop, stop_beside
from deployments.models import StepExecution
from deployments.notifying import tell_intervention
from steps.actions.approval import EXPIRED, REJECTED
from steps.failure_strategies import DEFAULT, Reaction
from steps.kinds.base import known_steps
from steps.states import TERMINAL, ActionState, Status

FOR_A_PERSON = timedelta(seconds=60)
# Whose failure is told where nothing else has failed: a branch may wait while another is decided about.
_STILL_FAILED = (Status.INTERVENTION_WAITING, Status.IGNORE_FAILED)


def react(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    """Do what a strategy, or a person, wants done about the failure of this step."""
    _REACTIONS[reaction.type](shared, step, reaction)


def ask(
    shared: Shared, step: StepExecution, kind: str, *, until: datetime | None = None, then: str = ""
) -> None:
    """Wait for a person who decides about this step; after `until`, `then` is done."""
    now = shared.world.now()
    step.intervention = {
        "kind": kind,
        "asked_at": now.isoformat(),
        "until": until.isoformat() if until else None,
        "on_timeout": then or None,
    }
    step.status, step.retry_at = Status.INTERVENTION_WAITING, None
    step.save(update_fields=["intervention", "status", "retry_at"])
    settle(shared)
    limit = f" until {until:%Y-%m-%d %H:%M:%S} UTC, then: {WORDS[then]}" if until and then else ""
    tell_intervention(shared.execution, step, until, shared.mask)
    say(shared, step, f"Waiting for a person to decide about step {step.name}{limit}", "warning")


def ask_about_being_stuck(shared: Shared, step: StepExecution, reason: str) -> None:
    """Wait for a person, or for a version of Slipway that can go on; a step that is over stays over."""
    if step.status in TERMINAL:
        shared.execution.status = Status.INTERVENTION_WAITING
        shared.execution.save(update_fields=["status"])
        return
    say(shared, step, reason, "error")
    ask(shared, step, "STUCK_BACKWARD" if shared.execution.rolling_back else "STUCK")


def go_on(shared: Shared, step: StepExecution) -> None:
    """Nobody needs to be asked any more."""
    if step.intervention is not None:
        step.intervention, step.status = None, Status.RUNNING
        step.save(update_fields=["intervention", "status"])
    settle(shared)


def time_left(shared: Shared, step: StepExecution) -> timedelta | None:
    """How long to wait before the next look at a step that waits for a person; None: its time is up."""
    until = (step.intervention or {}).get("until")
    if until is None:
        return FOR_A_PERSON
    left = datetime.fromisoformat(until) - shared.world.now()
    return min(left, FOR_A_PERSON) if left > timedelta(0) else None


def wait(shared: Shared, step: StepExecution) -> timedelta | None:
    """One look at a step that waits for a person; None means go on at once."""
    if (left := time_left(shared, step)) is not None:
        return left
    with shared.commit(reload=True):
        then = (step.intervention or {}).get("on_timeout") or DEFAULT.type
        say(shared, step, f"Nobody decided in time. {WORDS[then]}", "warning")
        go_on(shared, step)
        react(shared, step, Reaction(then))
    return None


def _retry(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    if step.retries >= reaction.count:
        say(shared, step, f"Step {step.name} failed after {_times(step.retries)}", "warning")
        react(shared, step, reaction.then or DEFAULT)
        return
    pause = reaction.pause_before(step.retries)
    step.retries += 1
    step.retry_at = shared.world.now() + timedelta(seconds=pause)
    step.status = Status.ASYNC_WAITING
    step.save(update_fields=["retries", "retry_at", "status"])
    forget_failure(shared, step)
    say(
        shared,
        step,
        f"Step {step.name} is tried again in {pause} seconds: retry {step.retries} of {reaction.count}",
        "warning",
    )


def _manual(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    until = shared.world.now() + timedelta(seconds=reaction.timeout)
    ask(shared, step, "FAILED", until=until, then=(reaction.then or DEFAULT).type)


def end_step(shared: Shared, step: StepExecution, status: Status) -> None:
    """End this step, and go on with the next one."""
    step.status, step.ended_at, step.intervention, step.retry_at = status, shared.world.now(), None, None
    step.save(update_fields=["status", "ended_at", "intervention", "retry_at"])
    waiting = step.actions.filter(state=ActionState.WAITING).exclude(name__in=always())
    waiting.update(state=ActionState.SKIPPED)
    say(shared, step, f"Step {step.name}: {_ENDED[status]}", "warning")


def _ignore(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    end_step(shared, step, Status.IGNORE_FAILED)
    if (
        not known_steps()[step.type].changes_ecs_service
        and (shared.execution.failure or {}).get("step") == step.identifier
    ):
        # What goes on is not said to have failed meanwhile; its end says how it ended.
        shared.execution.outcome = ""
        shared.execution.save(update_fields=["outcome"])


def _mark_as_success(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    end_step(shared, step, Status.SUCCESS)
    forget_failure(shared, step, outcome=False)


def forget_failure(shared: Shared, step: StepExecution, *, outcome: bool = True) -> None:
    """What was said of the execution because of this step holds no more; of another step it does."""
    execution = shared.execution
    if (execution.failure or {}).get("step") not in (None, step.identifier):
        return
    beside = shared.stage.steps.filter(status__in=_STILL_FAILED).exclude(pk=step.pk).exclude(failure=None)
    other = beside.order_by("position").first()
    execution.failure = other.failure if other is not None else None
    if outcome and other is None:
        execution.outcome = ""
    execution.save(update_fields=["failure", "outcome"])


def _mark_as_failure(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    status = _failed_as(step)
    if flow_of(shared.stage).waits_for_failure():
        # What runs after a failure has its turn before the stage ends.
        end(shared, step, status)
        stop_beside(shared, step)
        settle(shared)
        return
    stop(shared, step, status)
    set_ending(shared, status)


def _abort(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    stop(shared, step, Status.ABORTED)
    set_ending(shared, Status.ABORTED)


def _stage_rollback(shared: Shared, step: StepExecution, reaction: Reaction) -> None:
    status = _failed_as(step)
    stop(shared, step, status)
    begin_rollback(shared, ending=status)


def _failed_as(step: StepExecution) -> Status:
    """What a step and its execution are called that ended because of people."""
    code = str((step.failure or {}).get("code"))
    return {REJECTED: Status.APPROVAL_REJECTED, EXPIRED: Status.EXPIRED}.get(code, Status.FAILED)


def _times(retries: int) -> str:
    return "1 retry" if retries == 1 else f"{retries} retries"


_ENDED = {
    Status.IGNORE_FAILED: "its failure is ignored",
    Status.SUCCESS: "marked as success",
    Status.SKIPPED: "skipped",
}
WORDS = {
    "Abort": "The execution is aborted.",
    "Ignore": "The failure is ignored.",
    "MarkAsFailure": "The execution fails, and nothing is undone.",
    "MarkAsSuccess": "The step is marked as success.",
    "StageRollback": "The stage is rolled back.",
    "LeaveRest": "The rest of the rollback is left undone.",
}
_REACTIONS: dict[str, Callable[[Shared, StepExecution, Reaction], None]] = {
    "Abort": _abort,
    "Ignore": _ignore,
    "ManualIntervention": _manual,
    "MarkAsFailure": _mark_as_failure,
    "MarkAsSuccess": _mark_as_success,
    "Retry": _retry,
    "StageRollback": _stage_rollback,
}
