"""Takes up what people asked for since the last look (rule 4)."""

from collections.abc import Callable

from django.db.models import F

from deployments.actions.base import known_actions
from deployments.engine import failing
from deployments.engine.lease import Lease
from deployments.engine.shared import Shared, Snapshot
from deployments.log import NewLine, store
from deployments.models import ActionRun, Execution, Interrupt, StepExecution
from deployments.states import TERMINAL, ActionState, Outcome, Status


def take_up(lease: Lease, execution: Execution) -> None:
    """Answer every waiting interrupt, oldest first, each in a commit of its own."""
    waiting = Interrupt.objects.filter(execution=execution, taken_at=None).select_related("by").order_by("pk")
    for interrupt in waiting:
        with lease.commit():
            interrupt.taken_at = lease.world.now()
            interrupt.answer = _ANSWERS[interrupt.kind](_shared(lease, execution), interrupt)
            interrupt.save(update_fields=["taken_at", "answer"])


def _shared(lease: Lease, execution: Execution) -> Shared:
    stages = list(execution.stages.select_related("connector", "execution").order_by("position"))
    stage = next((s for s in stages if s.status not in TERMINAL), None)
    begun = [s for s in stages if s.status != Status.SKIPPED]
    return Shared(execution, stage or (begun or stages)[-1], lease, lease.world, Snapshot())


def _abort(shared: Shared, interrupt: Interrupt) -> str:
    if shared.execution.is_over:
        return "It was over already."
    if shared.execution.rolling_back or shared.execution.ending:
        return "It was on its way to its end already."
    roll_back = interrupt.kind == Interrupt.Kind.ABORT_AND_ROLL_BACK
    failing.abort(shared, roll_back=roll_back, by=_name(interrupt))
    return "Aborted."


def _roll_back(shared: Shared, interrupt: Interrupt) -> str:
    """Roll back an execution that has ended (rule 14): its stage opens again, backwards."""
    execution = shared.execution
    if not execution.is_over:
        return "It has not ended yet: abort it and roll it back."
    rollback = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    if not rollback.exists():
        return "The stage has no rollback steps."
    rollback.update(status=Status.QUEUED, attempt=F("attempt") + 1, started_at=None, ended_at=None)
    _reopen(shared)
    execution.rolling_back = True
    execution.status_before_rollback = execution.status
    execution.status = Status.ROLLING_BACK
    execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])
    _say(shared, f"{_name(interrupt)} asked to roll this execution back")
    return "Rolling back."


def _retry(shared: Shared, interrupt: Interrupt) -> str:
    """Try the step that failed again: its next attempt, and a new run where it was undone."""
    execution = shared.execution
    step = (
        shared.stage.steps.filter(section=StepExecution.Section.EXECUTION)
        .filter(status__in=(Status.FAILED, Status.ABORTED, Status.EXPIRED))
        .order_by("position")
        .first()
    )
    if not execution.is_over or step is None:
        return "There is no failed step to try again."
    _start_again(shared, step)
    _reopen(shared)
    execution.status, execution.outcome, execution.failure = Status.RUNNING, "", None
    execution.save(update_fields=["status", "outcome", "failure"])
    for stage in execution.stages.filter(position__gte=shared.stage.position):
        stage.steps.filter(status=Status.SKIPPED).update(status=Status.QUEUED)
        if stage != shared.stage:
            stage.status = Status.QUEUED
            stage.save(update_fields=["status"])
    _say(shared, f"{_name(interrupt)} asked to try {step.name} again: attempt {step.attempt}")
    return "Trying again."


def _start_again(shared: Shared, step: StepExecution) -> None:
    undone = step.actions.filter(state__in=(ActionState.UNDONE, ActionState.NOT_RESTORED)).exists()
    step.attempt += 1
    step.run += 1 if undone else 0
    step.status, step.failure = Status.QUEUED, None
    step.started_at = step.ended_at = step.timeout_at = None
    fields = ["attempt", "run", "status", "failure", "started_at", "ended_at", "timeout_at"]
    if undone:
        step.outputs = {}
        fields.append("outputs")
    step.save(update_fields=fields)
    repeated = [name for name, action in known_actions().items() if action.repeats]
    kept = step.actions.none() if undone else step.actions.filter(state=ActionState.DONE)
    again = step.actions.exclude(pk__in=kept.exclude(name__in=repeated))
    for row in again:
        _reset(row)
    rollback = shared.stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    rollback.update(status=Status.QUEUED, attempt=F("attempt") + 1, started_at=None, ended_at=None)
    step.actions.update(undo_state="", undo_tries=0, undo_started_at=None)


def _reset(row: ActionRun) -> None:
    row.state, row.detail, row.trouble, row.progress = ActionState.WAITING, "", 0, {}
    row.start_done_at = row.started_at = row.ended_at = None
    row.save(
        update_fields=["state", "detail", "trouble", "progress", "start_done_at", "started_at", "ended_at"]
    )


def _fail(shared: Shared, interrupt: Interrupt) -> str:
    """The program itself failed in a look: the step ends, as it would for any other failure."""
    if shared.execution.is_over or shared.execution.ending:
        return "It was over already."
    step = shared.stage.steps.exclude(status__in=TERMINAL).order_by("section", "position").first()
    shared.execution.outcome = Outcome.FAILED
    shared.execution.failure = {
        "code": "INTERNAL_ERROR",
        "message": interrupt.answer,
        "step": step.identifier if step else None,
        "container": None,
        "exit_code": None,
    }
    shared.execution.save(update_fields=["outcome", "failure"])
    if step is not None:
        failing.stop(shared, step, Status.FAILED)
        _say(shared, f"Slipway itself failed here: {interrupt.answer}", "error")
    if shared.execution.rolling_back:
        shared.execution.rolling_back = False
        shared.execution.ending = Status.FAILED
        shared.execution.save(update_fields=["rolling_back", "ending"])
    else:
        failing.begin_rollback(shared, ending=Status.FAILED)
    return interrupt.answer


def _reopen(shared: Shared) -> None:
    stage = shared.stage
    stage.status = Status.RUNNING
    stage.slot_wanted_at = shared.world.now()
    stage.save(update_fields=["status", "slot_wanted_at"])
    shared.execution.ended_at = None
    shared.execution.save(update_fields=["ended_at"])


def _name(interrupt: Interrupt) -> str:
    return interrupt.by.get_username() if interrupt.by else "Somebody"


def _say(shared: Shared, text: str, level: str = "warning") -> None:
    step = shared.stage.steps.order_by("section", "position").first()
    line = NewLine(
        shared.world.now(), step.pk if step else None, step.identifier if step else "", "", level, text
    )
    store(shared.execution.pk, [line], mask=shared.mask)


_ANSWERS: dict[str, Callable[[Shared, Interrupt], str]] = {
    Interrupt.Kind.ABORT: _abort,
    Interrupt.Kind.ABORT_AND_ROLL_BACK: _abort,
    Interrupt.Kind.ROLL_BACK: _roll_back,
    Interrupt.Kind.RETRY: _retry,
    Interrupt.Kind.FAIL: _fail,
}
