"""Interrupts: aborts, rollbacks, retries and decisions requested by people."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from deployments.engine import failures, transitions, undos
from deployments.engine.execution_rows import ExecutionRows
from deployments.engine.reconcile_context import ReconcileContext, ServiceSnapshot, append_log
from deployments.engine.steps import retries
from deployments.engine.steps.retries import retry_step
from deployments.engine.steps.scheduler import ENDED_BADLY
from deployments.engine.transitions import start_rollback, stop_at_step
from deployments.engine.undos import get_next_undo, skip_remaining_undos, skip_undo
from deployments.execution.events import notify_rollback
from deployments.execution.interventions import RESTORE_DECISIONS, TOO_LATE_MESSAGE, UNDO_KEY, list_choices
from deployments.execution.restored_executions import extend_deadlines, list_stale_approvals
from deployments.models import ActionRun, Execution, Interrupt, StageExecution, StepExecution
from steps.actions.base import get_actions
from steps.failure_strategies import FailureReaction, choose_reaction, classify_error
from steps.states import TERMINAL_STATUSES, ActionState, Outcome, Status

_REACTIONS = {
    Interrupt.Kind.IGNORE: "Ignore",
    Interrupt.Kind.MARK_AS_SUCCESS: "MarkAsSuccess",
    Interrupt.Kind.ABORT: "Abort",
    Interrupt.Kind.ROLL_BACK: "StageRollback",
}


def apply_decision(reconcile_context: ReconcileContext, interrupt: Interrupt) -> str:
    """Apply a person's decision on the step of the interrupt."""
    step = reconcile_context.stage.steps.filter(identifier=interrupt.step).first()
    if step is None or reconcile_context.execution.is_over or interrupt.kind not in list_choices(step):
        return TOO_LATE_MESSAGE
    append_log(
        reconcile_context,
        step,
        f"{_get_username(interrupt)} decided about step {step.name}: {_DECISION_LABELS[interrupt.kind]}",
        "warning",
    )
    if interrupt.kind in RESTORE_DECISIONS:
        _apply_restore_decision(reconcile_context, step, interrupt)
        return f"Decided: {_DECISION_LABELS[interrupt.kind]}."
    undo_id = (step.intervention or {}).get(UNDO_KEY)
    if step.intervention is not None:
        failures.clear_intervention(reconcile_context, step)
    if step.section == StepExecution.Section.ROLLBACK:
        if not _apply_rollback_decision(reconcile_context, step, interrupt, undo_id):
            return TOO_LATE_MESSAGE
    else:
        _DECISIONS.get(interrupt.kind, _apply_reaction)(reconcile_context, step, interrupt)
    return f"Decided: {_DECISION_LABELS[interrupt.kind]}."


def _apply_rollback_decision(
    reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt, undo_id: int | None
) -> bool:
    """Apply a decision on a failed undo: retry it, skip it, or skip all remaining undos.

    Return False if the undo to skip, the action `undo_id`, is not the next one of this version of Slipway.
    """
    step.timeout_at = reconcile_context.runtime.now() + timedelta(seconds=step.timeout_seconds)
    step.save(update_fields=["timeout_at"])
    row = get_next_undo(reconcile_context, step)
    if interrupt.kind == Interrupt.Kind.ABORT:
        skip_remaining_undos(reconcile_context, step)
    elif interrupt.kind == Interrupt.Kind.IGNORE and row is not None:
        if undo_id not in (None, row.pk):
            return False
        skip_undo(reconcile_context, row)
    return True


def _apply_reaction(reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt) -> None:
    failures.apply_reaction(
        reconcile_context, step, FailureReaction(_REACTIONS[Interrupt.Kind(interrupt.kind)])
    )


def _retry_step(reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt) -> None:
    """Start the next attempt, with all automatic retries available again."""
    step.retries = 0
    step.save(update_fields=["retries"])
    retry_step(step)
    failures.clear_failure(reconcile_context, step)


def _skip(reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt) -> None:
    """Skip the step with an unknown result, which is not a success.

    Skipping a mere wait has no effect on the result.
    """
    if step.failure is None and not _is_wait(step):
        failures.record_unknown_result(step, "SKIPPED", "The step was skipped before its result was known.")
        failures.clear_failure(reconcile_context, step)
    failures.clear_failure(reconcile_context, step, outcome=False)
    failures.end_step(reconcile_context, step, Status.SKIPPED)


def _is_wait(step: StepExecution) -> bool:
    names = step.actions.filter(state=ActionState.STARTED).values_list("name", flat=True)
    actions = [get_actions().get(name) for name in names]
    return bool(actions) and all(action is not None and action.may_be_cut_short for action in actions)


def _mark_as_failure(reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt) -> None:
    """Fail the step with its strategy for failures marked by people, without one without an undo."""
    strategies = [
        strategy for strategy in step.failure_strategies if "UserMarkedFailure" in strategy["errors"]
    ]
    error = classify_error("MARKED_AS_FAILURE")
    reconcile_context.execution.outcome = reconcile_context.execution.outcome or Outcome.FAILED
    reconcile_context.execution.save(update_fields=["outcome"])
    failures.apply_reaction(
        reconcile_context,
        step,
        choose_reaction(strategies, error) if strategies else FailureReaction("MarkAsFailure"),
    )


_DECISIONS: dict[str, Callable[[ReconcileContext, StepExecution, Interrupt], None]] = {
    Interrupt.Kind.MARK_AS_FAILURE: _mark_as_failure,
    Interrupt.Kind.RETRY: _retry_step,
    Interrupt.Kind.SKIP: _skip,
}
_DECISION_LABELS: dict[str, str] = {
    Interrupt.Kind.ABORT: "abort",
    Interrupt.Kind.END_UNCHANGED: "end without changes",
    Interrupt.Kind.GO_ON: "go on",
    Interrupt.Kind.IGNORE: "ignore the failure",
    Interrupt.Kind.MARK_AS_FAILURE: "mark as failure",
    Interrupt.Kind.MARK_AS_SUCCESS: "mark as success",
    Interrupt.Kind.RETRY: "retry",
    Interrupt.Kind.ROLL_BACK: "roll back the stage",
    Interrupt.Kind.SKIP: "skip",
}


def _apply_restore_decision(
    reconcile_context: ReconcileContext, step: StepExecution, interrupt: Interrupt
) -> None:
    """Continue an execution of a restored database, or end it without another call to AWS (rule 18)."""
    execution, question = reconcile_context.execution, step.intervention or {}
    before_restore: dict[str, Any] = question.get("before_restore", {})
    step.intervention = before_restore.get("intervention")
    step.status = before_restore.get("status", step.status)
    step.save(update_fields=["intervention", "status"])
    execution.restored_at = None
    execution.status = before_restore.get("execution", execution.status)
    execution.save(update_fields=["restored_at", "status"])
    if interrupt.kind == Interrupt.Kind.END_UNCHANGED:
        _end_unchanged(reconcile_context, interrupt)
    else:
        paused_for = reconcile_context.runtime.now() - datetime.fromisoformat(question["taken_at"])
        extend_deadlines(execution, paused_for)
        if not (execution.rolling_back or execution.final_status):
            _renew_approvals(reconcile_context)


def _renew_approvals(reconcile_context: ReconcileContext) -> None:
    """Request the approvals of what has not begun again: their plans are older than the restore."""
    for step in list_stale_approvals(reconcile_context.execution):
        text = "The plan that was approved is older than the restore: the approval is requested again"
        append_log(reconcile_context, step, text, "warning")
        retry_step(step)
        if step.stage.status in TERMINAL_STATUSES:
            step.stage.status = Status.RUNNING
            step.stage.save(update_fields=["status"])


def _end_unchanged(reconcile_context: ReconcileContext, interrupt: Interrupt) -> None:
    """End the execution and skip what would run at its end, such as resuming auto scaling."""
    execution = reconcile_context.execution
    rows = ActionRun.objects.filter(
        step__stage__execution=execution, name__in=transitions.list_always_actions()
    )
    rows.filter(state__in=(ActionState.WAITING, ActionState.STARTED)).update(
        state=ActionState.SKIPPED, ended_at=reconcile_context.runtime.now()
    )
    if execution.final_status:
        # Stages for failures would change AWS too.
        transitions.skip_later_stages(reconcile_context, Status.ABORTED)
        return
    text = f"{_get_username(interrupt)} ended this execution without changes after a restore from a backup"
    failures.abort_stage(reconcile_context, roll_back=False, text=text)


def apply_interrupts(rows: ExecutionRows) -> None:
    """Apply all requests of people that are not applied yet, oldest first."""
    waiting = Interrupt.objects.filter(execution=rows.execution, applied_at=None)
    interrupt = waiting.select_related("by").order_by("pk").first()
    if interrupt is None:
        return
    with rows.commit(reload=True):
        interrupt.applied_at = rows.lease.runtime.now()
        answer = apply_decision if interrupt.step else _INTERRUPTS[interrupt.kind]
        interrupt.result = answer(
            ReconcileContext(rows, _get_affected_stage(rows), ServiceSnapshot()), interrupt
        )[:255]
        interrupt.save(update_fields=["applied_at", "result"])


def _get_affected_stage(rows: ExecutionRows) -> StageExecution:
    """Return the stage that a request is about: the one under way, else the last that was not skipped."""
    stage = next((stage for stage in rows.stages if stage.status not in TERMINAL_STATUSES), None)
    begun = [stage for stage in rows.stages if stage.status != Status.SKIPPED]
    return stage or (begun or rows.stages)[-1]


def _abort(reconcile_context: ReconcileContext, interrupt: Interrupt) -> str:
    if reconcile_context.execution.is_over:
        return "The execution had already ended."
    if reconcile_context.execution.rolling_back or reconcile_context.execution.final_status:
        return "The execution was already ending."
    roll_back = interrupt.kind == Interrupt.Kind.ABORT_AND_ROLL_BACK
    text = f"{_get_username(interrupt)} aborted this execution"
    text += " and asked for a rollback" if roll_back else ""
    failures.abort_stage(reconcile_context, roll_back=roll_back, text=text)
    return "Aborted."


def _roll_back(reconcile_context: ReconcileContext, interrupt: Interrupt) -> str:
    """Roll back an ended execution (rule 14): its stage reopens for a rollback."""
    execution = reconcile_context.execution
    if not execution.is_over:
        return "The execution is still running: abort it with a rollback instead."
    stage = _get_newest_rollback_stage(execution)
    if stage is None:
        return "The stage has no rollback steps."
    reconcile_context = replace(reconcile_context, stage=stage)
    transitions.reopen_rollback(reconcile_context.stage)
    undos.reopen_undos(execution)
    _reopen(reconcile_context)
    execution.rolling_back = True
    execution.status_before_rollback = execution.status
    execution.status = Status.ROLLING_BACK
    execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])
    notify_rollback(execution, reconcile_context.mask, f"{_get_username(interrupt)} requested a rollback")
    first = reconcile_context.stage.steps.order_by("section", "position").first()
    append_log(
        reconcile_context,
        first,
        f"{_get_username(interrupt)} requested a rollback of this execution",
        "warning",
    )
    return transitions.ROLLBACK_BEGUN


def _retry_execution(reconcile_context: ReconcileContext, interrupt: Interrupt) -> str:
    """Retry the execution from the first undone step, else from the failed one."""
    execution = reconcile_context.execution
    reconcile_context = replace(reconcile_context, stage=_get_failed_stage(reconcile_context))
    step = retries.retry_stage(reconcile_context) if execution.is_over else None
    if step is None:
        return "There is no failed step to retry."
    _reopen(reconcile_context)
    execution.status, execution.outcome, execution.failure = Status.RUNNING, "", None
    execution.save(update_fields=["status", "outcome", "failure"])
    for stage in execution.stages.filter(position__gt=reconcile_context.stage.position):
        retries.requeue_stage(stage)
    append_log(
        reconcile_context,
        step,
        f"{_get_username(interrupt)} requested a retry of {step.name}: attempt {step.attempt}",
        "warning",
    )
    return transitions.RETRY_BEGUN


def _get_newest_rollback_stage(execution: Execution) -> StageExecution | None:
    started = execution.stages.exclude(status=Status.SKIPPED).filter(skip_reason="")
    started = started.select_related("connector", "execution")
    reversible = started.filter(steps__section=StepExecution.Section.ROLLBACK).distinct()
    return reversible.order_by("-position").first()


def _get_failed_stage(reconcile_context: ReconcileContext) -> StageExecution:
    """Return the first stage that failed or was undone; those after it may have run after the failure."""
    statuses = (*ENDED_BADLY, Status.ABORTED, Status.ROLLED_BACK)
    failed = reconcile_context.execution.stages.filter(status__in=statuses)
    return (
        failed.select_related("connector", "execution").order_by("position").first()
        or reconcile_context.stage
    )


def _fail(reconcile_context: ReconcileContext, interrupt: Interrupt) -> str:
    """Fail the step after a crash of a reconcile pass, like after any other failure."""
    if reconcile_context.execution.is_over or reconcile_context.execution.final_status:
        return "The execution had already ended."
    if reconcile_context.execution.restored_at is not None:
        # The question stays: nothing begins, and no rollback either, before a person has answered it.
        return f"Not applied, a person decides about the restored execution. {interrupt.result}"
    sections = StepExecution.Section
    section = sections.ROLLBACK if reconcile_context.execution.rolling_back else sections.EXECUTION
    open_steps = reconcile_context.stage.steps.filter(section=section).exclude(status__in=TERMINAL_STATUSES)
    step = open_steps.order_by("position").first()
    reconcile_context.execution.outcome = Outcome.FAILED
    reconcile_context.execution.failure = {
        "code": "INTERNAL_ERROR",
        "message": interrupt.result,
        "step": step.identifier if step else None,
        "stage": reconcile_context.stage.identifier,
        "container": None,
        "exit_code": None,
    }
    reconcile_context.execution.save(update_fields=["outcome", "failure"])
    if step is not None:
        stop_at_step(reconcile_context, step, Status.FAILED)
        append_log(reconcile_context, step, f"Slipway itself failed here: {interrupt.result}", "error")
    if reconcile_context.execution.rolling_back:
        reconcile_context.execution.rolling_back = False
        reconcile_context.execution.final_status = Status.FAILED
        reconcile_context.execution.save(update_fields=["rolling_back", "final_status"])
    else:
        start_rollback(reconcile_context, status=Status.FAILED)
    return interrupt.result


def _reopen(reconcile_context: ReconcileContext) -> None:
    stage = reconcile_context.stage
    stage.status, stage.skip_reason = Status.RUNNING, ""
    stage.save(update_fields=["status", "skip_reason"])
    stage.claims.update(requested_at=reconcile_context.runtime.now())
    reconcile_context.execution.ended_at = None
    reconcile_context.execution.save(update_fields=["ended_at"])


def _get_username(interrupt: Interrupt) -> str:
    return interrupt.by.get_username() if interrupt.by else "A user"


_INTERRUPTS: dict[str, Callable[[ReconcileContext, Interrupt], str]] = {
    Interrupt.Kind.ABORT: _abort,
    Interrupt.Kind.ABORT_AND_ROLL_BACK: _abort,
    Interrupt.Kind.ROLL_BACK: _roll_back,
    Interrupt.Kind.RETRY: _retry_execution,
    Interrupt.Kind.FAIL: _fail,
}
