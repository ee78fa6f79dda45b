"""Documents of executions and calls for pages, API and sockets, with the viewer's rights."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Prefetch, QuerySet

from deployments.approvals.verdicts import build_approval_summary
from deployments.execution.interventions import build_intervention_document
from deployments.execution.queries import build_queue_positions, explain_delegate_wait
from deployments.models import (
    ActionRun,
    Approval,
    AwsCall,
    Execution,
    RollbackCheck,
    StageExecution,
    StepExecution,
)
from pipelines.definition.execution_outlines import OutlineGroup, add_provisioner_headings, build_headings
from rbac.models import User
from rbac.policy import get_permissions
from steps.kinds.registry import is_undone_by_step
from steps.states import RETRYABLE_STATUSES, ActionState, CallState, Status, UndoState


@dataclass(frozen=True)
class ExecutionRights:
    """Permissions of a user on an execution in any state."""

    abort: bool
    run: bool


def get_rights(execution: Execution, principal: User) -> ExecutionRights:
    """Return the rights of a user on an execution."""
    return build_rights(get_permissions(principal, execution))


def build_rights(granted: frozenset[str]) -> ExecutionRights:
    """Return the rights from the permissions on an execution."""
    return ExecutionRights(abort="core_pipeline_abort" in granted, run="core_pipeline_execute" in granted)


def get_buttons(execution: Execution, rights: ExecutionRights) -> dict[str, bool]:
    """Return the enabled buttons: allowed by the state and by the user's rights."""
    is_over = execution.is_over
    is_winding_down = execution.rolling_back or bool(execution.final_status)
    rolled_back = execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
    is_last = execution.next_attempt_id is None
    return {
        "abort": rights.abort and not is_over and not is_winding_down,
        # A rollback of what runs aborts it first.
        "rollback": rights.run and (is_over or rights.abort) and not is_winding_down and not rolled_back,
        "retry": rights.run and execution.status in RETRYABLE_STATUSES and is_last,
        "attempt": rights.run and is_over and is_last,
        "decide": rights.run and not is_over,
        "stop": rights.abort and not is_over,
    }


def build_execution_document(execution: Execution, principal: User) -> dict[str, Any]:
    """Return the complete document of an execution's page, in a constant number of queries."""
    return {
        **build_execution_facts(execution),
        "can": get_buttons(execution, get_rights(execution, principal)),
    }


def build_execution_facts(execution: Execution) -> dict[str, Any]:
    """Return the part of the document that is the same for all users."""
    stages = list(_list_stages(execution))
    return {
        "id": str(execution.pk),
        "number": execution.number,
        "attempt": execution.attempt,
        "status": execution.status,
        "outcome": execution.outcome or None,
        "failure": execution.failure,
        "notes": execution.notes,
        "ignored_failures": sum(
            step.status == Status.IGNORE_FAILED for stage in stages for step in stage.steps.all()
        ),
        "pipeline": {
            "id": execution.pipeline_id,
            "identifier": execution.pipeline.identifier,
            "name": execution.pipeline.name,
            "version": execution.pipeline_version,
            "deleted": execution.pipeline.deleted_at is not None,
        },
        "scope": execution.scope.path,
        "started_by": execution.started_by.get_username() if execution.started_by else None,
        "cause": execution.cause,
        "created_at": _format_time(execution.created_at),
        "started_at": _format_time(execution.started_at),
        "ended_at": _format_time(execution.ended_at),
        "details_deleted_at": _format_time(execution.details_deleted_at),
        "artifact": execution.artifact,
        "inputs": execution.inputs,
        "queue": build_queue_positions(execution, stages),
        "waits_for_delegate": explain_delegate_wait(execution),
        "stages": [_build_stage(stage) for stage in stages],
        "checklist": _build_checklist(stages),
        "calls_count": AwsCall.objects.filter(execution=execution).count(),
        "last_line": execution.next_line_number - 1,
    }


def _list_stages(execution: Execution) -> QuerySet[StageExecution]:
    actions = ActionRun.objects.order_by("position")
    items = RollbackCheck.objects.order_by("position")
    steps = StepExecution.objects.order_by("section", "position").prefetch_related(
        Prefetch("actions", queryset=actions),
        Prefetch("rollback_checks", queryset=items),
        Prefetch("approvals", queryset=Approval.objects.defer("plan").prefetch_related("decisions")),
    )
    return (
        StageExecution.objects.filter(execution=execution)
        .order_by("position")
        .annotate(origin_id=F("reused_from__execution"), origin_number=F("reused_from__execution__number"))
        .prefetch_related(Prefetch("steps", queryset=steps), "groups")
    )


def _build_stage(stage: StageExecution) -> dict[str, Any]:
    steps = list(stage.steps.all())
    return {
        "identifier": stage.identifier,
        "name": stage.name,
        "status": stage.status,
        "service": stage.values.get("service", {}).get("identifier"),
        "environment": stage.values.get("env", {}).get("identifier"),
        "infrastructure": stage.values.get("infra", {}).get("identifier"),
        "region": stage.region,
        "cluster": stage.cluster,
        "account": stage.account or None,
        "ecs_service": stage.ecs_service or None,
        "counts": stage.counts,
        "deployment_id": stage.deployment_id or None,
        "skipped_because": stage.skip_reason or None,
        "reused_from": _build_origin(stage),
        "steps": [
            _build_step(step, steps) | heading
            for step, heading in zip(steps, _list_group_headings(stage, steps), strict=True)
        ],
    }


def _build_origin(stage: Any) -> dict[str, Any] | None:
    """Return the execution whose results a stage reuses, or None; its columns are annotations."""
    return {"id": str(stage.origin_id), "number": stage.origin_number} if stage.origin_id else None


def _list_group_headings(stage: StageExecution, steps: list[StepExecution]) -> list[dict[str, Any]]:
    groups = {group.pk: OutlineGroup(group.kind, group.name, group.parent_id) for group in stage.groups.all()}
    headings = build_headings([step.group_id for step in steps], groups)
    return add_provisioner_headings(headings, [step.section for step in steps], stage.provisioner_step_count)


def _build_step(step: StepExecution, siblings: list[StepExecution]) -> dict[str, Any]:
    return {
        "identifier": step.identifier,
        "name": step.name,
        "type": step.type,
        "section": step.section,
        "status": step.status,
        "attempt": step.attempt,
        "started_at": _format_time(step.started_at),
        "ended_at": _format_time(step.ended_at),
        "timeout_at": _format_time(step.timeout_at),
        "first_line": step.first_line,
        "skipped_because": step.skip_reason or None,
        "failure": step.failure,
        "intervention": build_intervention_document(step),
        "approval": _build_approval(step),
        "retry_at": _format_time(step.retry_at),
        "units": _build_rollback_units(step, siblings) if step.section == "ROLLBACK" else _build_units(step),
        "outputs": step.outputs,
    }


def _build_approval(step: StepExecution) -> dict[str, Any] | None:
    """Return the latest approval of a step, or None; one attempt may request several."""
    latest = max(step.approvals.all(), key=lambda row: (row.attempt, row.requested_at), default=None)
    return None if latest is None else build_approval_summary(latest)


def _build_units(step: StepExecution) -> list[dict[str, Any]]:
    grouped: dict[str, list[ActionRun]] = defaultdict(list)
    for row in step.actions.all():
        grouped[row.unit].append(row)
    return [
        {
            "name": name,
            "status": _get_unit_status(step, rows),
            "actions": [_build_action(row, step) for row in rows],
        }
        for name, rows in grouped.items()
    ]


def _build_rollback_units(step: StepExecution, siblings: list[StepExecution]) -> list[dict[str, Any]]:
    """Return the undos of the partner steps, newest first; a rollback step has no actions of its own."""
    rows = [
        row
        for partner in reversed(siblings)
        if is_undone_by_step(step.type, step.spec, partner.type, partner.spec)
        for row in reversed(list(partner.actions.all()))
        if row.undo_state in (UndoState.KNOWN, UndoState.READY, UndoState.SENT)
        or row.state in (ActionState.UNDONE, ActionState.NOT_RESTORED)
    ]
    actions = [{**_build_action(row, step), "title": f"Undo: {row.title}"} for row in rows]
    return [{"name": "Rollback", "status": step.status, "actions": actions}] if actions else []


def _build_action(row: ActionRun, step: StepExecution) -> dict[str, Any]:
    """Return the document of an action; one that the end of its step interrupted ends with the step."""
    interrupted = _is_interrupted(row, step)
    return {
        "title": row.title,
        "state": step.status if interrupted else row.state,
        "detail": row.detail,
        "started_at": _format_time(row.started_at),
        "ended_at": _format_time(row.ended_at or (step.ended_at if interrupted else None)),
    }


def _is_interrupted(row: ActionRun, step: StepExecution) -> bool:
    """Return whether a decision or an abort ended the step in the middle of an action.

    The row keeps its state, which a rollback or a retry needs.
    """
    return row.step_id == step.pk and row.state == ActionState.STARTED and step.ended_at is not None


def _get_unit_status(step: StepExecution, rows: list[ActionRun]) -> str:
    states = {row.state for row in rows}
    if ActionState.FAILED in states or ActionState.NOT_RESTORED in states:
        return Status.FAILED
    if any(_is_interrupted(row, step) for row in rows):
        return step.status
    if states <= {ActionState.WAITING}:
        return Status.QUEUED
    if states <= {ActionState.SKIPPED, ActionState.WAITING}:
        return Status.SKIPPED
    if states & {ActionState.UNDONE, ActionState.UNDOING}:
        return Status.ROLLED_BACK
    finished = states <= {ActionState.DONE, ActionState.SKIPPED}
    return Status.SUCCESS if finished else Status.RUNNING


def _build_checklist(stages: list[StageExecution]) -> list[dict[str, Any]]:
    return [
        {
            "subject": item.subject,
            "expected": item.expected,
            "found": item.actual,
            "ok": item.passed,
            "note": item.note,
        }
        for stage in stages
        for step in stage.steps.all()
        for item in step.rollback_checks.all()
        if item.attempt == step.attempt
    ]


def build_call_document(call: AwsCall) -> dict[str, Any]:
    """Return the document of a call for the calls tab; step and action must be loaded."""
    return {
        "id": call.pk,
        "number": call.number,
        "at": _format_time(call.sent_at or call.planned_at),
        "service": call.service,
        "operation": call.operation,
        "phase": call.phase,
        "step": call.step.identifier,
        "action": call.action.title,
        "attempt": call.attempt,
        "state": call.state,
        "write": call.is_write,
        "adopted": call.is_confirmed and call.state == CallState.ANSWERED,
        "sends": call.send_number,
        "repeats": call.repeat_count,
        "duration": None if call.duration_ms is None else call.duration_ms / 1000,
        "duration_ms": call.duration_ms,
        "error": call.error,
        "params_preview": call.preview,
        "by": call.served_by[-1]["delegate"] if call.served_by else None,
        "delegate_instance": call.served_by[-1]["delegate"] if call.served_by else None,
        "served_by": call.served_by,
        "task": str(call.task_id) if call.task_id else None,
    }


def _format_time(moment: Any) -> str | None:
    return moment.isoformat() if moment is not None else None
