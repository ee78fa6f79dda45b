"""Transitions of an execution: into rollback, to an earlier stage, to its final status."""

from django.db.models import F, Q, QuerySet

from deployments.approvals.requests import withdraw_approvals
from deployments.engine import service_locks
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.engine.steps.scheduler import ENDED_BADLY, read_flow, runs_after_failure
from deployments.execution.events import notify_rollback
from deployments.journal.non_aws_calls import stop_work
from deployments.models import ActionRun, Execution, Interrupt, StageExecution, StepExecution
from steps.actions.base import get_actions
from steps.states import TERMINAL_STATUSES, ActionState, Status


def start_rollback(reconcile_context: ReconcileContext, *, status: Status) -> None:
    """Start the rollback of the stage, or set the final status if it has no rollback steps."""
    rollback = reconcile_context.stage.steps.filter(section=StepExecution.Section.ROLLBACK)
    if not rollback.exists():
        set_final_status(reconcile_context, status)
        return
    reconcile_context.execution.rolling_back = True
    reconcile_context.execution.status_before_rollback = status
    reconcile_context.execution.status = Status.ROLLING_BACK
    reconcile_context.execution.save(update_fields=["rolling_back", "status_before_rollback", "status"])
    notify_rollback(reconcile_context.execution, reconcile_context.mask)


def set_final_status(reconcile_context: ReconcileContext, status: Status) -> None:
    """Set the final status and run the always-actions."""
    reconcile_context.execution.final_status = status
    reconcile_context.execution.rolling_back = False
    reconcile_context.execution.save(update_fields=["final_status", "rolling_back"])


def stop_at_step(reconcile_context: ReconcileContext, step: StepExecution, status: Status) -> None:
    """End a step, stop parallel steps, and skip all later ones."""
    close_step(reconcile_context, step, status)
    stop_parallel_steps(reconcile_context, step)
    queued = reconcile_context.stage.steps.filter(
        section=StepExecution.Section.EXECUTION, status=Status.QUEUED
    )
    _skip_steps(queued)
    skip_later_stages(reconcile_context, status)


def stop_parallel_steps(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    """Stop the steps of other branches, like an abort."""
    forward = reconcile_context.stage.steps.filter(section=StepExecution.Section.EXECUTION)
    for other in forward.exclude(status__in=(*TERMINAL_STATUSES, Status.QUEUED)).exclude(pk=step.pk):
        append_log(
            reconcile_context,
            other,
            f"Step {other.name} is stopped together with step {step.name}",
            "warning",
        )
        close_step(reconcile_context, other, Status.ABORTED)


def skip_later_stages(reconcile_context: ReconcileContext, status: Status) -> None:
    """Skip the later stages, except those that run after a failure."""
    for stage in reconcile_context.execution.stages.filter(position__gt=reconcile_context.stage.position):
        if status in ENDED_BADLY and runs_after_failure(stage):
            continue
        _skip_steps(stage.steps.all())
        stage.status = Status.SKIPPED
        stage.save(update_fields=["status"])


def _skip_steps(steps: QuerySet[StepExecution]) -> None:
    waiting = ActionRun.objects.filter(step__in=steps, state=ActionState.WAITING)
    # Those of a step that waits for its retry run.
    always = Q(name__in=list_always_actions(), step__started_at__isnull=False)
    waiting.exclude(always).update(state=ActionState.SKIPPED)
    steps.update(status=Status.SKIPPED)


def close_step(reconcile_context: ReconcileContext, step: StepExecution, status: Status) -> None:
    """End one step, stop its delegate tasks, and skip its unstarted actions."""
    stop_work(step)
    withdraw_approvals(step)
    step.status, step.intervention, step.retry_at = status, None, None
    step.ended_at = reconcile_context.runtime.now()
    step.save(update_fields=["status", "intervention", "retry_at", "ended_at"])
    step.actions.filter(state=ActionState.WAITING).exclude(name__in=list_always_actions()).update(
        state=ActionState.SKIPPED
    )


def list_always_actions() -> list[str]:
    """Return the names of the actions that run however a step ended."""
    return [name for name, action in get_actions().items() if action.runs_always]


_ROLLBACK = StepExecution.Section.ROLLBACK
# Results of the requests of people that were granted.
ROLLBACK_BEGUN, RETRY_BEGUN = "Rolling back.", "Retrying."
_WHOLE_EXECUTION_KINDS = (Interrupt.Kind.ROLL_BACK, Interrupt.Kind.RETRY)


def reopen_rollback(stage: StageExecution) -> None:
    """Reopen the rollback steps of a stage, again if they ran before."""
    stage.steps.filter(section=_ROLLBACK).update(
        status=Status.QUEUED, attempt=F("attempt") + 1, started_at=None, ended_at=None, skip_reason=""
    )
    flow = read_flow(stage, _ROLLBACK)
    outer_groups = {group.pk for step in flow.steps for group in flow.list_outer_groups(step)}
    stage.groups.filter(pk__in=outer_groups).update(status=Status.QUEUED, skip_reason="")


def was_successful(execution: Execution) -> bool:
    """Return whether the execution had succeeded before its rollbacks, even if an earlier one failed."""
    status = execution.status_before_rollback
    return status in (Status.SUCCESS, Status.IGNORE_FAILED) or (
        status in (Status.FAILED, Status.ROLLED_BACK) and execution.failure is None
    )


def is_all_undone(rows: QuerySet[ActionRun]) -> bool:
    """Return whether at least one action was undone and none was left."""
    is_left = rows.filter(state=ActionState.NOT_RESTORED).exists()
    return not is_left and bool(rows.filter(state=ActionState.UNDONE).exists())


def get_status_after_rollback(execution: Execution, rows: QuerySet[ActionRun]) -> str:
    """Return the status after a rollback of an execution, or of the stage of these actions.

    A successful one becomes ROLLED_BACK if all is undone; a failed one stays failed.
    """
    status = execution.status_before_rollback or Status.FAILED
    if not was_successful(execution):
        return status
    steps = StepExecution.objects.filter(stage__in=rows.values("step__stage"), section=_ROLLBACK)
    if rows.filter(state=ActionState.NOT_RESTORED).exists() or steps.filter(status=Status.FAILED).exists():
        return Status.FAILED
    return Status.ROLLED_BACK if is_all_undone(rows) else status


def start_earlier_rollback(reconcile_context: ReconcileContext) -> bool:
    """Close the rolled back stage and reopen the one before it; return False if there is none to undo."""
    earlier = _get_earlier_stage(reconcile_context) if _is_whole_execution(reconcile_context) else None
    if earlier is None:
        return False
    rows = ActionRun.objects.filter(step__stage=reconcile_context.stage)
    reconcile_context.stage.status = get_status_after_rollback(reconcile_context.execution, rows)
    reconcile_context.stage.save(update_fields=["status"])
    service_locks.release_locks(reconcile_context)
    reopen_rollback(earlier)
    earlier.status = Status.RUNNING
    earlier.save(update_fields=["status"])
    earlier.claims.update(requested_at=reconcile_context.runtime.now())
    append_log(
        reconcile_context,
        earlier.steps.filter(section=_ROLLBACK).first(),
        f"Going back to stage {earlier.name}",
    )
    return True


def _is_whole_execution(reconcile_context: ReconcileContext) -> bool:
    """Return whether a person requested a rollback of all stages; a failed stage undoes only itself."""
    interrupts = Interrupt.objects.filter(
        execution=reconcile_context.execution, step="", kind__in=_WHOLE_EXECUTION_KINDS
    )
    # Another result says why a request was refused.
    newest = interrupts.filter(result__in=(ROLLBACK_BEGUN, RETRY_BEGUN)).order_by("-pk").first()
    return newest is not None and newest.kind == Interrupt.Kind.ROLL_BACK


def _get_earlier_stage(reconcile_context: ReconcileContext) -> StageExecution | None:
    earlier_stages = reconcile_context.execution.stages.filter(
        position__lt=reconcile_context.stage.position, steps__section=_ROLLBACK
    )
    started = earlier_stages.filter(steps__started_at__isnull=False).distinct()
    stage: StageExecution | None = started.order_by("-position").first()
    return stage
