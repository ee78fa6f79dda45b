"""Executions and their calls as documents: what pages, the API and sockets show of one."""

from collections import defaultdict
from typing import Any

from django.db.models import Prefetch, QuerySet

from deployments.execution_rights import buttons, rights_on
from deployments.interventions import intervention_document
from deployments.models import (
    ActionRun,
    Approval,
    Call,
    CheckedItem,
    Execution,
    StageExecution,
    StepExecution,
)
from deployments.verdicts import approval_summary
from deployments.waiting_lines import queue_of, waits_for_delegate
from pipelines.definition.headings import Around, headings, parted
from rbac.models import User
from steps.kinds.base import takes_back
from steps.states import ActionState, Status, UndoState


def execution_document(execution: Execution, principal: User) -> dict[str, Any]:
    """Everything that a page draws of an execution, in a constant number of queries."""
    return {
        **execution_facts(execution),
        "can": buttons(execution, rights_on(execution, principal)),
    }


def execution_facts(execution: Execution) -> dict[str, Any]:
    """What is the same for everybody who may see the execution."""
    stages = list(_with_plan(execution))
    return {
        "id": str(execution.pk),
        "number": execution.number,
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
        "created_at": _text(execution.created_at),
        "started_at": _text(execution.started_at),
        "ended_at": _text(execution.ended_at),
        "artifact": execution.artifact,
        "inputs": execution.inputs,
        "queue": queue_of(execution, stages),
        "waits_for_delegate": waits_for_delegate(execution),
        "stages": [_stage(stage) for stage in stages],
        "checklist": _checklist(stages),
        "calls_count": Call.objects.filter(execution=execution).count(),
        "last_line": execution.log_next - 1,
    }


def _with_plan(execution: Execution) -> QuerySet[StageExecution]:
    actions = ActionRun.objects.order_by("position")
    items = CheckedItem.objects.order_by("position")
    steps = StepExecution.objects.order_by("section", "position").prefetch_related(
        Prefetch("actions", queryset=actions),
        Prefetch("checked_items", queryset=items),
        Prefetch("approvals", queryset=Approval.objects.defer("ahead").prefetch_related("decisions")),
    )
    return (
        StageExecution.objects.filter(execution=execution)
        .order_by("position")
        .prefetch_related(Prefetch("steps", queryset=steps), "groups")
    )


def _stage(stage: StageExecution) -> dict[str, Any]:
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
        "skipped_because": stage.skipped_because or None,
        "steps": [
            _step(step, steps) | place for step, place in zip(steps, _places(stage, steps), strict=True)
        ],
    }


def _places(stage: StageExecution, steps: list[StepExecution]) -> list[dict[str, Any]]:
    groups = {one.pk: Around(one.kind, one.name, one.parent_id) for one in stage.groups.all()}
    places = headings([step.group_id for step in steps], groups)
    return parted(places, [step.section for step in steps], stage.provisioner_steps)


def _step(step: StepExecution, siblings: list[StepExecution]) -> dict[str, Any]:
    return {
        "identifier": step.identifier,
        "name": step.name,
        "type": step.type,
        "section": step.section,
        "status": step.status,
        "attempt": step.attempt,
        "started_at": _text(step.started_at),
        "ended_at": _text(step.ended_at),
        "timeout_at": _text(step.timeout_at),
        "first_line": step.first_line,
        "skipped_because": step.skipped_because or None,
        "failure": step.failure,
        "intervention": intervention_document(step),
        "approval": _approval(step),
        "retry_at": _text(step.retry_at),
        "units": _units_of_rollback(step, siblings) if step.section == "ROLLBACK" else _units(step),
        "outputs": step.outputs,
    }


def _approval(step: StepExecution) -> dict[str, Any] | None:
    """What the newest try of an approval step asks for."""
    found = max(step.approvals.all(), key=lambda one: one.attempt, default=None)
    return None if found is None else approval_summary(found)


def _units(step: StepExecution) -> list[dict[str, Any]]:
    grouped: dict[str, list[ActionRun]] = defaultdict(list)
    for row in step.actions.all():
        grouped[row.unit].append(row)
    return [
        {"name": name, "status": _status_of(rows), "actions": [_action(row) for row in rows]}
        for name, rows in grouped.items()
    ]


def _units_of_rollback(step: StepExecution, siblings: list[StepExecution]) -> list[dict[str, Any]]:
    """A rollback step shows the undos of its partners, newest first; it has no actions of its own."""
    rows = [
        row
        for partner in reversed(siblings)
        if takes_back(step.type, step.spec, partner.type, partner.spec)
        for row in reversed(list(partner.actions.all()))
        if row.undo_state in (UndoState.KNOWN, UndoState.READY, UndoState.SENT)
        or row.state in (ActionState.UNDONE, ActionState.NOT_RESTORED)
    ]
    actions = [{**_action(row), "title": f"Undo: {row.title}"} for row in rows]
    return [{"name": "Rollback", "status": step.status, "actions": actions}] if actions else []


def _action(row: ActionRun) -> dict[str, Any]:
    return {
        "title": row.title,
        "state": row.state,
        "detail": row.detail,
        "started_at": _text(row.started_at),
        "ended_at": _text(row.ended_at),
    }


def _status_of(rows: list[ActionRun]) -> str:
    states = {row.state for row in rows}
    if ActionState.FAILED in states or ActionState.NOT_RESTORED in states:
        return Status.FAILED
    if states <= {ActionState.WAITING}:
        return Status.QUEUED
    if states <= {ActionState.SKIPPED, ActionState.WAITING}:
        return Status.SKIPPED
    if states & {ActionState.UNDONE, ActionState.UNDOING}:
        return Status.ROLLED_BACK
    finished = states <= {ActionState.DONE, ActionState.SKIPPED}
    return Status.SUCCESS if finished else Status.RUNNING


def _checklist(stages: list[StageExecution]) -> list[dict[str, Any]]:
    return [
        {
            "subject": item.subject,
            "expected": item.expected,
            "found": item.found,
            "ok": item.ok,
            "note": item.note,
        }
        for stage in stages
        for step in stage.steps.all()
        for item in step.checked_items.all()
        if item.attempt == step.attempt
    ]


def call_document(call: Call) -> dict[str, Any]:
    """One call to AWS as the calls tab shows it; `call` comes with step and action."""
    return {
        "id": call.pk,
        "number": call.number,
        "at": _text(call.sent_at or call.planned_at),
        "service": call.service,
        "operation": call.operation,
        "phase": call.phase,
        "step": call.step.identifier,
        "action": call.action.title,
        "attempt": call.attempt,
        "state": call.state,
        "write": call.is_write,
        "adopted": call.adopted,
        "sends": call.send_number,
        "repeats": call.repeats,
        "duration": None if call.duration_ms is None else call.duration_ms / 1000,
        "duration_ms": call.duration_ms,
        "error": call.error,
        "params_preview": call.preview,
        "by": call.served_by[-1]["delegate"] if call.served_by else None,
        "delegate_instance": call.served_by[-1]["delegate"] if call.served_by else None,
        "served_by": call.served_by,
        "task": str(call.task_id) if call.task_id else None,
    }


def _text(moment: Any) -> str | None:
    return moment.isoformat() if moment is not None else None
