"""Failures of steps, and the reactions of failure strategies and people."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from deployments.engine import service_locks
from deployments.engine.reconcile_context import ReconcileContext, append_log, update_execution_status
from deployments.engine.steps.scheduler import ENDED_BADLY, read_flow
from deployments.engine.transitions import (
    close_step,
    list_always_actions,
    set_final_status,
    skip_later_stages,
    start_rollback,
    stop_at_step,
    stop_parallel_steps,
)
from deployments.execution.events import notify_intervention
from deployments.execution.interventions import UNDO_KEY
from deployments.journal.non_aws_calls import stop_work
from deployments.models import ActionRun, StepExecution
from steps.actions.approvals import APPROVAL_EXPIRED, APPROVAL_REJECTED
from steps.actions.base import ActionFailed
from steps.failure_strategies import (
    DEFAULT_REACTION,
    FailureReaction,
    choose_reaction,
    classify_error,
    hold_approval,
)
from steps.kinds.approval import APPROVAL_TYPE
from steps.kinds.registry import may_change_ecs_service
from steps.states import TERMINAL_STATUSES, ActionState, Outcome, Status

INTERVENTION_CHECK_INTERVAL = timedelta(seconds=60)
# Statuses of steps whose failure the execution may show, the preferred first: branches wait for decisions.
_STILL_FAILED = (Status.INTERVENTION_WAITING, Status.IGNORE_FAILED)


def apply_reaction(
    reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction
) -> None:
    """Apply the reaction of a strategy, or of a person, to the failure of this step."""
    _REACTIONS[reaction.type](reconcile_context, step, reaction)


def request_intervention(
    reconcile_context: ReconcileContext,
    step: StepExecution,
    kind: str,
    *,
    until: datetime | None = None,
    then: str = "",
    undo: ActionRun | None = None,
) -> None:
    """Let the step wait for a person's decision; after `until` the reaction is `then`.

    `undo` is the action that a rollback step cannot undo: a decision is about no other one.
    """
    now = reconcile_context.runtime.now()
    step.intervention = {
        "kind": kind,
        "requested_at": now.isoformat(),
        "until": until.isoformat() if until else None,
        "on_timeout": then or None,
    }
    if undo is not None:
        step.intervention[UNDO_KEY] = undo.pk
    step.status, step.retry_at = Status.INTERVENTION_WAITING, None
    step.save(update_fields=["intervention", "status", "retry_at"])
    update_execution_status(reconcile_context)
    limit = f" until {until:%Y-%m-%d %H:%M:%S} UTC, then: {REACTION_MESSAGES[then]}" if until and then else ""
    notify_intervention(reconcile_context.execution, step, until, reconcile_context.mask)
    append_log(
        reconcile_context, step, f"Waiting for a person to decide about step {step.name}{limit}", "warning"
    )


def request_stuck_intervention(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun, reason: str
) -> None:
    """Request a decision on a step that this version of Slipway cannot continue."""
    append_log(reconcile_context, step, reason, "error")
    if reconcile_context.execution.rolling_back:
        request_intervention(reconcile_context, step, "STUCK_BACKWARD", undo=row)
    else:
        request_intervention(reconcile_context, step, "STUCK")


def clear_intervention(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    """Remove the request for a decision."""
    if step.intervention is not None:
        step.intervention, step.status = None, Status.RUNNING
        step.save(update_fields=["intervention", "status"])
    update_execution_status(reconcile_context)


def get_time_left(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    """Return the time to the next check of a step that waits for a person; None after its deadline."""
    until = (step.intervention or {}).get("until")
    if until is None:
        return INTERVENTION_CHECK_INTERVAL
    remaining = datetime.fromisoformat(until) - reconcile_context.runtime.now()
    return min(remaining, INTERVENTION_CHECK_INTERVAL) if remaining > timedelta(0) else None


def check_intervention(reconcile_context: ReconcileContext, step: StepExecution) -> timedelta | None:
    """Check a step that waits for a person; None means continue immediately."""
    if (remaining := get_time_left(reconcile_context, step)) is not None:
        return remaining
    with reconcile_context.commit(reload=True):
        reaction_type = (step.intervention or {}).get("on_timeout") or DEFAULT_REACTION.type
        append_log(
            reconcile_context, step, f"Nobody decided in time. {REACTION_MESSAGES[reaction_type]}", "warning"
        )
        clear_intervention(reconcile_context, step)
        apply_reaction(reconcile_context, step, FailureReaction(reaction_type))
    return None


def _retry(reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction) -> None:
    if step.retries >= reaction.count:
        append_log(
            reconcile_context,
            step,
            f"Step {step.name} failed after {_format_retries(step.retries)}",
            "warning",
        )
        apply_reaction(reconcile_context, step, reaction.then or DEFAULT_REACTION)
        return
    pause = reaction.get_retry_pause(step.retries)
    step.retries += 1
    step.retry_at = reconcile_context.runtime.now() + timedelta(seconds=pause)
    step.status = Status.ASYNC_WAITING
    step.save(update_fields=["retries", "retry_at", "status"])
    clear_failure(reconcile_context, step)
    append_log(
        reconcile_context,
        step,
        f"Step {step.name} is tried again in {pause} seconds: retry {step.retries} of {reaction.count}",
        "warning",
    )


def _request_decision(
    reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction
) -> None:
    until = reconcile_context.runtime.now() + timedelta(seconds=reaction.timeout)
    request_intervention(
        reconcile_context, step, "FAILED", until=until, then=(reaction.then or DEFAULT_REACTION).type
    )


def end_step(reconcile_context: ReconcileContext, step: StepExecution, status: Status) -> None:
    """End this step and continue with the next one."""
    step.status, step.ended_at, step.intervention, step.retry_at = (
        status,
        reconcile_context.runtime.now(),
        None,
        None,
    )
    step.save(update_fields=["status", "ended_at", "intervention", "retry_at"])
    waiting = step.actions.filter(state=ActionState.WAITING).exclude(name__in=list_always_actions())
    waiting.update(state=ActionState.SKIPPED)
    append_log(reconcile_context, step, f"Step {step.name}: {_END_MESSAGES[status]}", "warning")


def record_unknown_result(
    step: StepExecution,
    code: str = "RESULT_UNKNOWN",
    message: str = "A person ended the step before its result was known.",
) -> None:
    """Record that the result of a step without a failure is unknown, so that it does not count as success."""
    if step.failure is not None:
        return
    step.failure = {
        "code": code,
        "message": message,
        "step": step.identifier,
        "stage": step.stage.identifier,
        "container": None,
        "exit_code": None,
    }
    step.save(update_fields=["failure"])


def _ignore(reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction) -> None:
    record_unknown_result(step)
    end_step(reconcile_context, step, Status.IGNORE_FAILED)
    if not may_change_ecs_service(step.type) and _is_failure_of(reconcile_context.execution.failure, step):
        # A running deployment is not marked as failed; its end sets the outcome.
        reconcile_context.execution.outcome = ""
        reconcile_context.execution.save(update_fields=["outcome"])


def _mark_as_success(
    reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction
) -> None:
    record_unknown_result(step)
    end_step(reconcile_context, step, Status.SUCCESS)
    clear_failure(reconcile_context, step, outcome=False)


def clear_failure(reconcile_context: ReconcileContext, step: StepExecution, *, outcome: bool = True) -> None:
    """Clear the failure of the execution if this step caused it; another failed step replaces it."""
    execution = reconcile_context.execution
    if (execution.failure or {}).get("step") and not _is_failure_of(execution.failure, step):
        return
    other_failures = (
        StepExecution.objects.filter(stage__execution=execution, status__in=_STILL_FAILED)
        .exclude(pk=step.pk)
        .exclude(failure=None)
    )
    ordered = other_failures.order_by("stage__position", "position")
    other = min(ordered, key=lambda failed: _STILL_FAILED.index(Status(failed.status)), default=None)
    execution.failure = other.failure if other is not None else None
    if outcome:
        execution.outcome = _get_remaining_outcome(other)
    execution.save(update_fields=["failure", "outcome"])


def _is_failure_of(failure: Mapping[str, Any] | None, step: StepExecution) -> bool:
    """Return whether a step caused a failure; failures of earlier versions have no stage."""
    if failure is None or failure.get("step") != step.identifier:
        return False
    return bool(failure.get("stage", step.stage.identifier) == step.stage.identifier)


def _get_remaining_outcome(step: StepExecution | None) -> str:
    """Return the outcome after a failed step; ignored failures of other steps than deployments have none."""
    if step is None:
        return ""
    is_ignored = step.status == Status.IGNORE_FAILED
    if is_ignored and not may_change_ecs_service(step.type):
        return ""
    return str((step.failure or {}).get("outcome") or "")


def _mark_as_failure(
    reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction
) -> None:
    status = _get_failed_status(step)
    if read_flow(reconcile_context.stage).has_steps_after_failure():
        # Steps that run after a failure still run before the stage ends.
        close_step(reconcile_context, step, status)
        stop_parallel_steps(reconcile_context, step)
        update_execution_status(reconcile_context)
        return
    stop_at_step(reconcile_context, step, status)
    set_final_status(reconcile_context, status)


def _abort(reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction) -> None:
    stop_at_step(reconcile_context, step, Status.ABORTED)
    set_final_status(reconcile_context, Status.ABORTED)


def _roll_back_stage(
    reconcile_context: ReconcileContext, step: StepExecution, reaction: FailureReaction
) -> None:
    status = _get_failed_status(step)
    stop_at_step(reconcile_context, step, status)
    start_rollback(reconcile_context, status=status)


def _get_failed_status(step: StepExecution) -> Status:
    """Return the status of a failed step and its execution; people's decisions have their own."""
    code = str((step.failure or {}).get("code"))
    return {APPROVAL_REJECTED: Status.APPROVAL_REJECTED, APPROVAL_EXPIRED: Status.EXPIRED}.get(
        code, Status.FAILED
    )


def _format_retries(retries: int) -> str:
    return "1 retry" if retries == 1 else f"{retries} retries"


_END_MESSAGES = {
    Status.IGNORE_FAILED: "its failure is ignored",
    Status.SUCCESS: "marked as success",
    Status.SKIPPED: "skipped",
}
REACTION_MESSAGES = {
    "Abort": "The execution is aborted.",
    "Ignore": "The failure is ignored.",
    "MarkAsFailure": "The execution fails, and nothing is undone.",
    "MarkAsSuccess": "The step is marked as success.",
    "StageRollback": "The stage is rolled back.",
    "LeaveRest": "The rest of the rollback is left undone.",
}
_REACTIONS: dict[str, Callable[[ReconcileContext, StepExecution, FailureReaction], None]] = {
    "Abort": _abort,
    "Ignore": _ignore,
    "ManualIntervention": _request_decision,
    "MarkAsFailure": _mark_as_failure,
    "MarkAsSuccess": _mark_as_success,
    "Retry": _retry,
    "StageRollback": _roll_back_stage,
}


def fail_step(
    reconcile_context: ReconcileContext, step: StepExecution, row: ActionRun | None, failure: ActionFailed
) -> None:
    """Record the failure of a step and apply the reaction of its failure strategy."""
    message = reconcile_context.mask.mask_text(failure.message)
    notes: dict[str, Any] = {
        "code": failure.code,
        "message": message,
        "step": step.identifier,
        "stage": step.stage.identifier,
        "container": failure.container or None,
        "exit_code": failure.exit_code,
        "outcome": failure.outcome,
    }
    if failure.last_output:
        notes["last_output"] = reconcile_context.mask.mask_lines(failure.last_output)
    if failure.advice:
        notes["advice"] = reconcile_context.mask.mask_text(failure.advice)
    append_log(reconcile_context, step, message, "error", row.unit if row else "")
    if row is not None:
        reconcile_context.change(
            row, state=ActionState.FAILED, ended_at=reconcile_context.runtime.now(), detail=message[:512]
        )
    reconcile_context.change(step, failure=notes)
    if not _has_failed_before(reconcile_context):
        # The first failure is the cause, whatever a later stage or step results in.
        reconcile_context.change(reconcile_context.execution, failure=notes, outcome=failure.outcome)
    with reconcile_context.commit(reload=True):
        stop_work(step)
        apply_reaction(reconcile_context, step, _choose_reaction(reconcile_context, step, failure))


def _choose_reaction(
    reconcile_context: ReconcileContext, step: StepExecution, failure: ActionFailed
) -> FailureReaction:
    chosen = choose_reaction(step.failure_strategies, _get_error_type(failure))
    if step.type != APPROVAL_TYPE:
        return chosen
    held = hold_approval(chosen)
    if held != chosen:
        text = "An approval is neither ignored nor marked as success: the stage is rolled back instead"
        append_log(reconcile_context, step, text, "warning")
    return held


def _has_failed_before(reconcile_context: ReconcileContext) -> bool:
    """Return whether a stage or a step failed already, and its failure was not ignored."""
    rows = reconcile_context.rows
    if any(stage.status in ENDED_BADLY for stage in rows.stages):
        return True
    return any(step.status in ENDED_BADLY for stage in rows.stages for step in rows.list_section_steps(stage))


def _get_error_type(failure: ActionFailed) -> str:
    """Return the error type; a failure with a container or an outcome concerns the deployed version."""
    if failure.outcome == "TIMED_OUT":
        return classify_error("TIMED_OUT")
    return classify_error(failure.code, has_verdict=bool(failure.container) or failure.outcome != "FAILED")


def abort_stage(reconcile_context: ReconcileContext, *, roll_back: bool, text: str) -> None:
    """Abort the stage immediately, with or without a rollback; inside a commit. `text` says who and how."""
    forward = reconcile_context.stage.steps.filter(section=StepExecution.Section.EXECUTION).order_by(
        "position"
    )
    open_steps = forward.exclude(status__in=TERMINAL_STATUSES)
    step = open_steps.first()
    if step is not None:
        append_log(reconcile_context, step, text, "warning")
        if not roll_back:
            _log_running_deployment(reconcile_context, step)
            started = ActionRun.objects.filter(step__in=open_steps, state=ActionState.STARTED)
            started.update(ended_at=reconcile_context.runtime.now())
        stop_at_step(reconcile_context, step, Status.ABORTED)
    elif (last := forward.last()) is not None:
        # All steps of the stage have ended, and it is not closed yet.
        append_log(reconcile_context, last, text, "warning")
        skip_later_stages(reconcile_context, Status.ABORTED)
    reconcile_context.execution.outcome = Outcome.ABORTED
    reconcile_context.execution.failure = {
        "code": "ABORTED",
        "message": text,
        "step": step.identifier if step else None,
        "stage": reconcile_context.stage.identifier,
        "container": None,
        "exit_code": None,
    }
    reconcile_context.execution.save(update_fields=["outcome", "failure"])
    if roll_back:
        start_rollback(reconcile_context, status=Status.ABORTED)
    else:
        set_final_status(reconcile_context, Status.ABORTED)


def _log_running_deployment(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    """Log that ECS continues its deployment: an abort only stops Slipway."""
    stage = reconcile_context.stage
    if stage.ecs_service and stage.deployment_id:
        text = (
            f"Nothing is undone: ECS goes on with deployment {stage.deployment_id} of Service "
            f"{stage.ecs_service}. Roll this execution back to bring back what ran before"
        )
        append_log(reconcile_context, step, text, "warning")


def close_stage(reconcile_context: ReconcileContext, status: Status) -> None:
    """End the stage and release its service locks."""
    reconcile_context.change(reconcile_context.stage, status=status)
    with reconcile_context.commit():
        service_locks.release_locks(reconcile_context)
