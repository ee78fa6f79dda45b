"""Takes up what people asked for since the last look (rule 4)."""

from collections.abc import Callable
from dataclasses import replace

from deployments.engine import again, failing, leaving, stages_back
from deployments.engine.decisions import decide
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.flow import ENDED_BADLY, runs_after_failure
from deployments.engine.shared import Shared, Snapshot
from deployments.engine.telling import say
from deployments.engine.turning import begin_rollback, stop
from deployments.models import Execution, Interrupt, StageExecution, StepExecution
from deployments.notifying import tell_rollback
from steps.states import TERMINAL, Outcome, Status


def take_up(rows: ExecutionRows) -> None:
    """Answer the oldest interrupt that waits, in a commit of its own; the rows have to be loaded again."""
    waiting = Interrupt.objects.filter(execution=rows.execution, taken_at=None)
    interrupt = waiting.select_related("by").order_by("pk").first()
    if interrupt is None:
        return
    with rows.commit(reload=True):
        interrupt.taken_at = rows.lease.world.now()
        answer = decide if interrupt.step else _ANSWERS[interrupt.kind]
        interrupt.answer = answer(Shared(rows, _stage_of(rows), Snapshot()), interrupt)[:255]
        interrupt.save(update_fields=["taken_at", "answer"])


def _stage_of(rows: ExecutionRows) -> StageExecution:
    """The stage that a request is about: the one under way, else the last that was not skipped."""
    stage = next((stage for stage in rows.stages if stage.status not in TERMINAL), None)
    begun = [stage for stage in rows.stages if stage.status != Status.SKIPPED]
    return stage or (begun or rows.stages)[-1]


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
    stage = _newest_with_rollback(execution)
    if stage is None:
        return "The stage has no rollback steps."
    shared = replace(shared, stage=stage)
    stages_back.reopen(shared.stage)
    leaving.reopen(execution)
    _reopen(shared)
    execution.rolling_back = True
    execution.status_before_rollback = execution.status
    execution.status = Status.ROLLING_BACK
    execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])
    tell_rollback(execution, shared.mask, f"{_name(interrupt)} asked for it")
    first = shared.stage.steps.order_by("section", "position").first()
    say(shared, first, f"{_name(interrupt)} asked to roll this execution back", "warning")
    return "Rolling back."


def _retry(shared: Shared, interrupt: Interrupt) -> str:
    """Try it again from the first step that was undone, else from the one that failed."""
    execution = shared.execution
    shared = replace(shared, stage=_first_failed(shared))
    step = again.start_again(shared) if execution.is_over else None
    if step is None:
        return "There is no failed step to try again."
    _reopen(shared)
    execution.status, execution.outcome, execution.failure = Status.RUNNING, "", None
    execution.save(update_fields=["status", "outcome", "failure"])
    for stage in execution.stages.filter(position__gt=shared.stage.position):
        again.wait_anew(stage)
    say(shared, step, f"{_name(interrupt)} asked to try {step.name} again: attempt {step.attempt}", "warning")
    return "Trying again."


def _newest_with_rollback(execution: Execution) -> StageExecution | None:
    begun = execution.stages.exclude(status=Status.SKIPPED).select_related("connector", "execution")
    can_go_back = begun.filter(steps__section=StepExecution.Section.ROLLBACK).distinct()
    return can_go_back.order_by("-position").first()


def _first_failed(shared: Shared) -> StageExecution:
    """The stage that failed; stages that run after a failure may have run behind it."""
    if not runs_after_failure(shared.stage):
        return shared.stage
    failed = shared.execution.stages.filter(status__in=(*ENDED_BADLY, Status.ABORTED))
    return failed.select_related("connector", "execution").order_by("position").first() or shared.stage


def _fail(shared: Shared, interrupt: Interrupt) -> str:
    """The program itself failed in a look: the step ends, as it would for any other failure."""
    if shared.execution.is_over or shared.execution.ending:
        return "It was over already."
    sections = StepExecution.Section
    section = sections.ROLLBACK if shared.execution.rolling_back else sections.EXECUTION
    open_steps = shared.stage.steps.filter(section=section).exclude(status__in=TERMINAL)
    step = open_steps.order_by("position").first()
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
        stop(shared, step, Status.FAILED)
        say(shared, step, f"Slipway itself failed here: {interrupt.answer}", "error")
    if shared.execution.rolling_back:
        shared.execution.rolling_back = False
        shared.execution.ending = Status.FAILED
        shared.execution.save(update_fields=["rolling_back", "ending"])
    else:
        begin_rollback(shared, ending=Status.FAILED)
    return interrupt.answer


def _reopen(shared: Shared) -> None:
    stage = shared.stage
    stage.status = Status.RUNNING
    stage.save(update_fields=["status"])
    stage.claims.update(wanted_at=shared.world.now())
    shared.execution.ended_at = None
    shared.execution.save(update_fields=["ended_at"])


def _name(interrupt: Interrupt) -> str:
    return interrupt.by.get_username() if interrupt.by else "Somebody"


_ANSWERS: dict[str, Callable[[Shared, Interrupt], str]] = {
    Interrupt.Kind.ABORT: _abort,
    Interrupt.Kind.ABORT_AND_ROLL_BACK: _abort,
    Interrupt.Kind.ROLL_BACK: _roll_back,
    Interrupt.Kind.RETRY: _retry,
    Interrupt.Kind.FAIL: _fail,
}
