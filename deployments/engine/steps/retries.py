"""Retries of a step: its next attempt, or a new run after an undo."""

from django.db.models import Q

from deployments.approvals.requests import withdraw_approvals
from deployments.engine import transitions
from deployments.engine.reconcile_context import ReconcileContext
from deployments.engine.steps import preconditions
from deployments.engine.steps.scheduler import AFTER_FAILURE, ENDED_BADLY, read_flow
from deployments.models import ActionRun, AwsCall, StageExecution, StepExecution
from steps.actions.base import get_actions
from steps.kinds.approval import APPROVAL_TYPE
from steps.states import ActionState, CallState, Status

_SENT_STATES = (CallState.ANSWERED, CallState.SENT, CallState.UNKNOWN)
_UNDONE_STATES = (ActionState.UNDONE, ActionState.NOT_RESTORED)
_SUCCESS_STATUSES = (Status.SUCCESS, Status.IGNORE_FAILED)
_FAILED_STATUSES = (*ENDED_BADLY, Status.ABORTED)


def retry_step(step: StepExecution) -> None:
    """Retry the step from the failed action; succeeded actions stay unless they repeat."""
    repeated_names = [name for name, action in get_actions().items() if action.repeats]
    repeated_names += _list_repeated_actions(step)
    _start_attempt(step)
    succeeded = step.actions.filter(state=ActionState.DONE).exclude(name__in=repeated_names)
    for row in step.actions.exclude(pk__in=succeeded.values("pk")):
        _retry_action(row, step.attempt)


def _list_repeated_actions(step: StepExecution) -> list[str]:
    """Return the actions to repeat before the failed action can succeed."""
    failed = step.actions.filter(state=ActionState.FAILED).first()
    if (
        failed is None
        or failed.name not in get_actions()
        or "TIMED_OUT" in ((step.failure or {}).get("code"), (step.failure or {}).get("outcome"))
    ):
        return []
    return list(get_actions()[failed.name].repeated_with)


def retry_stage(reconcile_context: ReconcileContext) -> StepExecution | None:
    """Queue the stage from the first undone step, else from the failed one.

    Undone steps and all later ones begin a new run; None if there is nothing to retry.
    """
    steps = list(
        reconcile_context.stage.steps.filter(section=StepExecution.Section.EXECUTION).order_by("position")
    )
    undone = [step for step in steps if step.actions.filter(state__in=_UNDONE_STATES).exists()]
    first = next((step for step in steps if step in undone or step.status in _FAILED_STATUSES), None)
    if first is None:
        return None
    for step in steps[: first.position]:
        if step.type == APPROVAL_TYPE and step.status == Status.SUCCESS:
            # The plan may differ from the approved one.
            retry_step(step)
    for step in steps[first.position :]:
        if step.started_at is None:
            _requeue_step(step)
        elif undone or _ran_after_failure(step):
            _start_new_run(step)
        elif step.status not in _SUCCESS_STATUSES:
            retry_step(step)
    _reset_infrastructure(reconcile_context.stage)
    _reset_group_conditions(reconcile_context)
    transitions.reopen_rollback(reconcile_context.stage)
    return first


def _reset_infrastructure(stage: StageExecution) -> None:
    """Reset the location of a stage whose provisioner runs again."""
    provisioner = stage.steps.filter(section=StepExecution.Section.EXECUTION)
    provisioner = provisioner.filter(position__lt=stage.provisioner_step_count)
    if provisioner.filter(status=Status.QUEUED).exclude(type=APPROVAL_TYPE).exists():
        preconditions.reset_infrastructure(stage)


def _ran_after_failure(step: StepExecution) -> bool:
    """Return whether a step ran because of a failure, so that its condition is evaluated again."""
    return step.status in _SUCCESS_STATUSES and (step.when or {}).get("stageStatus") in AFTER_FAILURE


def _reset_group_conditions(reconcile_context: ReconcileContext) -> None:
    """Reset groups without started steps, so that their conditions are evaluated again."""
    flow = read_flow(reconcile_context.stage)
    for group in flow.groups.values():
        steps = [node for node in flow.list_inner_nodes(group) if isinstance(node, StepExecution)]
        if all(step.status == Status.QUEUED and step.started_at is None for step in steps):
            group.status, group.skip_reason = Status.QUEUED, ""
            group.save(update_fields=["status", "skip_reason"])


def requeue_stage(stage: StageExecution) -> None:
    """Queue a later stage again as if it had not run."""
    for step in stage.steps.all():
        if step.status == Status.SKIPPED:
            _requeue_step(step)
        elif step.started_at is not None and step.section == StepExecution.Section.EXECUTION:
            _start_new_run(step)
    stage.groups.update(status=Status.QUEUED, skip_reason="")
    _reset_infrastructure(stage)
    # Its steps claim their ECS services again.
    stage.claims.all().delete()
    stage.status, stage.skip_reason = Status.QUEUED, ""
    stage.save(update_fields=["status", "skip_reason"])


def _requeue_step(step: StepExecution) -> None:
    step.status, step.ended_at, step.skip_reason = Status.QUEUED, None, ""
    step.save(update_fields=["status", "ended_at", "skip_reason"])
    step.actions.filter(state=ActionState.SKIPPED).update(state=ActionState.WAITING)


def _start_new_run(step: StepExecution) -> None:
    _start_attempt(step)
    step.run, step.outputs, step.secret_outputs, step.started_at = step.run + 1, {}, "", None
    step.save(update_fields=["run", "outputs", "secret_outputs", "started_at"])
    for row in step.actions.all():
        row.first_attempt = step.attempt
        _reset(row, step.attempt)


def _start_attempt(step: StepExecution) -> None:
    """Start the next attempt of a step; its start time stays, so that an abort still undoes it."""
    withdraw_approvals(step)
    step.attempt += 1
    step.status, step.failure, step.intervention = Status.QUEUED, None, None
    step.retry_at = step.ended_at = step.timeout_at = None
    step.save(
        update_fields=[
            "attempt",
            "status",
            "failure",
            "intervention",
            "retry_at",
            "ended_at",
            "timeout_at",
        ]
    )
    step.actions.update(undo_state="", undo_started_at=None)


def _retry_action(row: ActionRun, attempt: int) -> None:
    """Reset the action, or continue the attempt of a write that may have happened (rule 12)."""
    calls = AwsCall.objects.filter(action=row, attempt=row.attempt, phase="start")
    # A delegate may still have to repeat one.
    sent = Q(state__in=_SENT_STATES) | Q(state=CallState.PLANNED, is_confirmed=True)
    last = calls.filter(sent, is_write=True).order_by("-number").first()
    if last is None or row.start_done_at is not None or _is_repeated(row, last):
        _reset(row, attempt)
        return
    # Later calls are made again; their rows stay as history.
    calls.filter(number__gt=last.number).update(phase=f"start until {attempt}")
    row.state, row.detail, row.consecutive_errors, row.ended_at = ActionState.STARTED, "", 0, None
    row.save(update_fields=["state", "detail", "consecutive_errors", "ended_at"])


def _is_repeated(row: ActionRun, last: AwsCall) -> bool:
    """Return whether a repeating action starts over: the answer to its last write is known."""
    action = get_actions().get(row.name)
    return action is not None and action.repeats and last.state == CallState.ANSWERED


def _reset(row: ActionRun, attempt: int) -> None:
    row.state, row.detail, row.consecutive_errors, row.progress = ActionState.WAITING, "", 0, {}
    row.start_done_at = row.started_at = row.ended_at = None
    row.writes_requested = row.writes_made = 0
    row.attempt, row.undo_state, row.undo_started_at = attempt, "", None
    row.save(
        update_fields=[
            "state",
            "detail",
            "consecutive_errors",
            "progress",
            "writes_requested",
            "writes_made",
            "start_done_at",
            "started_at",
            "ended_at",
            "attempt",
            "first_attempt",
            "undo_state",
            "undo_started_at",
        ]
    )
