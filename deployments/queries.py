"""What pages, the API and sockets read: executions as documents, lists narrowed to what one may see."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from deployments.headings import Around, headings, parted
from deployments.interventions import intervention_document
from deployments.models import (
    ActionRun,
    Approval,
    Call,
    CheckedItem,
    Execution,
    Pipeline,
    Slot,
    SlotClaim,
    StageExecution,
    StepExecution,
)
from deployments.states import RETRYABLE, TERMINAL, ActionState, CallState, Status, UndoState
from deployments.steps.base import takes_back
from deployments.verdicts import approval_summary
from rbac.models import Scope, User
from rbac.policy import at_or_below, permissions_at, visible_below, visible_to

MOST_DIGITS = 9
_SLOT_OF_CLAIM = Slot.objects.filter(key=OuterRef("key"), stage=OuterRef("stage"))


def visible_executions(principal: User, scope: Scope | None = None) -> QuerySet[Execution]:
    """The executions that a person may see, in one scope or everywhere, with what a list shows."""
    rows = Execution.objects.select_related("pipeline", "scope", "started_by").defer("yaml", "pipeline__yaml")
    stages = StageExecution.objects.order_by("position").only("execution", "position", "values")
    found = visible_below(principal, "core_pipeline_view", rows, scope)
    return found.prefetch_related(Prefetch("stages", queryset=stages))


def searched(executions: QuerySet[Execution], principal: User, text: str) -> QuerySet[Execution]:
    """The executions that `text` names: by a part of their pipeline's name, their number or their tag."""
    text = text.strip()
    if not text:
        return executions
    number = text.removeprefix("#")
    meant = Q(pipeline__in=_pipelines_named(principal, text)) | Q(tag=text)
    if number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS:
        meant |= Q(number=int(number))
    return executions.filter(meant)


def _pipelines_named(principal: User, text: str) -> list[int]:
    """The pipelines with `text` in their name, compared here: the databases fold letters differently."""
    rows = visible_pipelines(principal).values_list("pk", "name", "identifier")
    wanted = text.casefold()
    return [pk for pk, *names in rows if any(wanted in name.casefold() for name in names)]


def visible_pipelines(principal: User, scope: Scope | None = None) -> QuerySet[Pipeline]:
    """The pipelines that a person may see, in one scope or everywhere."""
    found = visible_to(principal, "core_pipeline_view", Pipeline.objects.select_related("scope"))
    return found if scope is None else found.filter(at_or_below(scope))


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
        "queue": _queue(execution, stages),
        "waits_for_delegate": _waits_for_delegate(execution),
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


def ahead_of(claim: SlotClaim) -> QuerySet[SlotClaim]:
    """The claims of other stages that hold, or wait for, the same slot and came before this one."""
    others = SlotClaim.objects.filter(key=claim.key).exclude(stage=claim.stage_id)
    earlier = Q(wanted_at__lt=claim.wanted_at) | Q(wanted_at=claim.wanted_at, pk__lt=claim.pk)
    return others.exclude(stage__status__in=TERMINAL).filter(earlier)


def waiting_claims() -> QuerySet[SlotClaim]:
    """The claims of all stages that are not granted now, the oldest first."""
    return SlotClaim.objects.filter(~Exists(_SLOT_OF_CLAIM)).order_by("wanted_at", "pk")


def _queue(execution: Execution, stages: list[StageExecution]) -> dict[str, Any] | None:
    """Where each step stands that waits for its ECS service, who waits longest at the top too (rule 13)."""
    if execution.is_over:
        return None
    open_stages = [stage for stage in stages if stage.status not in TERMINAL]
    claims = list(waiting_claims().filter(stage__in=open_stages).select_related("step"))
    if not claims:
        return None
    others = SlotClaim.objects.filter(key__in={one.key for one in claims})
    open_others = others.exclude(stage__status__in=TERMINAL).select_related("stage__execution")
    in_line = list(open_others.order_by("wanted_at", "pk"))
    places = [_place_in_line(claim, in_line) for claim in claims]
    return {**places[0], "steps": places}


def _place_in_line(claim: SlotClaim, in_line: Sequence[SlotClaim]) -> dict[str, Any]:
    """The place of one claim among those that want the same, as `ahead_of` counts them."""
    came = (claim.wanted_at, claim.pk)
    others = [one for one in in_line if one.key == claim.key and one.stage_id != claim.stage_id]
    earlier = [one for one in others if (one.wanted_at, one.pk) < came]
    return {
        "position": len({one.stage_id for one in earlier}),
        "waits_for": f"#{earlier[0].stage.execution.number}" if earlier else None,
        "ecs_service": claim.ecs_service,
        "step": claim.step.identifier,
    }


def _waits_for_delegate(execution: Execution) -> dict[str, Any] | None:
    """Why the call that comes next is with no delegate yet, and what would help."""
    if execution.is_over:
        return None
    queued = Call.objects.filter(execution=execution, state=CallState.PLANNED, task__status="QUEUED")
    call = queued.filter(task__offered_to=None).exclude(task__reason="").select_related("task", "step").last()
    if call is None or call.task is None:
        return None
    return {
        "step": call.step.identifier,
        "selectors": call.task.selectors,
        "selectors_from": call.task.selectors_from or None,
        "reason": call.task.reason,
        "since": _text(call.task.queued_at),
        "until": _text(call.task.deadline),
        "task": str(call.task.pk),
    }


def newest_tags(principal: User, pipelines: Sequence[Pipeline], most: int) -> list[str]:
    """The tags that pipelines ran last, each once, newest first."""
    runs = visible_executions(principal).filter(pipeline__in=pipelines).exclude(tag="").exclude(tag=None)
    newest = runs.order_by("-created_at").values_list("tag", flat=True)[: most * 5]
    return list(dict.fromkeys(newest))[:most]


@dataclass(frozen=True)
class Rights:
    """What a person may do with an execution, whatever its state."""

    abort: bool
    run: bool


def rights_on(execution: Execution, principal: User) -> Rights:
    """Ask for the permissions of a person on an execution."""
    return rights_among(permissions_at(principal, execution))


def rights_among(granted: frozenset[str]) -> Rights:
    """Say what permissions on an execution come to."""
    return Rights(abort="core_pipeline_abort" in granted, run="core_pipeline_execute" in granted)


def buttons(execution: Execution, rights: Rights) -> dict[str, bool]:
    """Which buttons work: what the state allows and this person may do."""
    over = execution.is_over
    turning = execution.rolling_back or bool(execution.ending)
    rolled_back = execution.outcome in ("ROLLED_BACK", "ROLLED_BACK_BY_AWS")
    return {
        "abort": rights.abort and not over and not turning,
        "rollback": rights.run and not turning and not rolled_back,
        "retry": rights.run and execution.status in RETRYABLE,
        "decide": rights.run and not over,
        "stop": rights.abort and not over,
    }


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
