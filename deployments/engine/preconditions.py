"""Preconditions of a step: its when-conditions and its dynamic infrastructure."""

from collections.abc import Iterable, Mapping
from typing import Any

from catalog import infrastructure_checks
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.engine.step_scheduler import ENDED_BADLY, FlowNode
from deployments.models import ActionRun, ServiceLock, StageExecution, StepExecution, StepGroup
from steps.actions.base import ActionFailed
from steps.conditions import parse_condition
from steps.expressions import BadExpressionError, resolve_expressions
from steps.states import ActionState, Status

_FAILED = (*ENDED_BADLY, Status.ABORTED)
LONGEST_REASON = 512


def get_skip_reason(reconcile_context: ReconcileContext) -> str:
    """Why the stage does not run; nothing if it does. Raises `UnclearConditionError`."""
    before = [one for one in reconcile_context.rows.stages if one.position < reconcile_context.stage.position]
    has_failed = any(stage.status in _FAILED for stage in before)
    return _evaluate_condition(
        reconcile_context, reconcile_context.stage.when, "pipelineStatus", "stage", has_failed=has_failed
    )


def skip_if_unmet(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Ask of the groups around a step that have not begun, then of the step; skip what is not to run.

    Raises `UnclearConditionError`.
    """
    if step.when is None and step.group_id is None:
        if reason := _get_step_reason(reconcile_context, step, None):
            _skip(reconcile_context, step, [step], reason)
        return bool(reason)
    flow = reconcile_context.rows.flow_of(reconcile_context.stage, step.section)
    nodes: list[FlowNode] = [*flow.around(step), step]
    for node in nodes:
        if isinstance(node, StepGroup) and node.status != Status.QUEUED:
            continue
        reason = _get_step_reason(reconcile_context, step, node.when)
        if reason:
            inside = list(flow.inside(node)) if isinstance(node, StepGroup) else []
            _skip(reconcile_context, step, [node, *inside], reason)
            return True
        if isinstance(node, StepGroup):
            reconcile_context.change(node, status=Status.RUNNING)
            reconcile_context.save()
    return False


def skip_stage(reconcile_context: ReconcileContext, reason: str) -> None:
    """The stage does not run: neither do its steps."""
    stage = reconcile_context.stage
    with reconcile_context.commit(reload=True):
        append_log(reconcile_context, None, f"Stage {stage.name} is skipped {reason}", "warning")
        stage.status, stage.skip_reason = Status.SKIPPED, reason[:LONGEST_REASON]
        stage.save(update_fields=["status", "skip_reason"])
        _skip_rows(list(stage.steps.all()), "")


def _get_step_reason(
    reconcile_context: ReconcileContext, step: StepExecution, when: Mapping[str, Any] | None
) -> str:
    """Why a step, or a group around it, does not run; a rollback runs whatever came of those before it."""
    has_failed = any(
        one.status in _FAILED
        for one in reconcile_context.rows.steps_of(reconcile_context.stage, step.section)
    )
    if step.section == StepExecution.Section.ROLLBACK:
        return _evaluate_condition(
            reconcile_context,
            when or {"stageStatus": "All"},
            "stageStatus",
            "rollback",
            has_failed=has_failed,
        )
    return _evaluate_condition(reconcile_context, when, "stageStatus", "step", has_failed=has_failed)


def _evaluate_condition(
    reconcile_context: ReconcileContext,
    when: Mapping[str, Any] | None,
    status: str,
    what: str,
    *,
    has_failed: bool,
) -> str:
    after = (when or {}).get(status, "Success")
    if has_failed and after == "Success":
        return f"because a {what} before it failed"
    if not has_failed and after == "Failure":
        return f"because no {what} before it failed"
    condition = (when or {}).get("condition")
    if condition is None or parse_condition(condition).holds(reconcile_context.known_values()):
        return ""
    return f"because this is false: {condition}"


def _skip(
    reconcile_context: ReconcileContext, step: StepExecution, nodes: list[FlowNode], reason: str
) -> None:
    outer = nodes[0]
    what = "Step" if isinstance(outer, StepExecution) else "Group"
    with reconcile_context.commit(reload=True):
        append_log(
            reconcile_context,
            step,
            f"{what} {outer.name or 'of parallel steps'} is skipped {reason}",
            "warning",
        )
        _skip_rows(nodes, reason)


def _skip_rows(nodes: Iterable[FlowNode], reason: str) -> None:
    for node in nodes:
        node.status, node.skip_reason = Status.SKIPPED, reason[:LONGEST_REASON]
        node.save(update_fields=["status", "skip_reason"])
    steps = [node for node in nodes if isinstance(node, StepExecution)]
    waiting = ActionRun.objects.filter(step__in=steps, state=ActionState.WAITING)
    waiting.update(state=ActionState.SKIPPED)


_CODE = "PLACE_NOT_KNOWN"


def resolve_infrastructure(reconcile_context: ReconcileContext, step: StepExecution) -> None:
    """Before the first step behind the provisioner's: read region and cluster, and let the stage go there.

    A stage that is settled stays where it is. Raises `ActionFailed` with what is not known or not right.
    """
    stage = reconcile_context.stage
    if stage.dynamic_location is None or stage.has_location or step.position < stage.provisioner_step_count:
        return
    found = _read_location(reconcile_context)
    with reconcile_context.commit(reload=True):
        stage.region, stage.cluster, stage.account = found["region"], found["cluster"], ""
        stage.values = {**stage.values, "infra": {**stage.values.get("infra", {}), **found}}
        stage.save(update_fields=["region", "cluster", "account", "values"])
        delete_lock_claims(stage)
        append_log(
            reconcile_context, step, f"Deploying to the provisioned cluster {stage.cluster} in {stage.region}"
        )
    reconcile_context.forget_claims()


def _read_location(reconcile_context: ReconcileContext) -> dict[str, str]:
    stage = reconcile_context.stage
    values = reconcile_context.known_values()
    said: dict[str, Any] = stage.dynamic_location or {}
    found: dict[str, str] = {}
    for name, problem_of in (
        ("region", infrastructure_checks.describe_region_problem),
        ("cluster", infrastructure_checks.describe_cluster_problem),
    ):
        text = str(said.get(name, ""))
        try:
            found[name] = str(resolve_expressions(text, values)).strip()
        except BadExpressionError as bad:
            raise ActionFailed(_CODE, f"The {name} of the infrastructure, {text}: {bad.message}") from bad
        if problem := problem_of(found[name]):
            what = f"The {name} of the infrastructure, {text}, came to {found[name][:100]!r}."
            raise ActionFailed(_CODE, reconcile_context.mask.mask_text(f"{what} {problem}"))
    return found


def reset_infrastructure(stage: StageExecution) -> None:
    """Let a stage whose provisioner runs again settle anew where it deploys; inside a commit."""
    if stage.dynamic_location is None:
        return
    infra = stage.values.get("infra", {})
    stage.values = {
        **stage.values,
        "infra": {name: value for name, value in infra.items() if name not in ("region", "cluster")},
    }
    stage.region = stage.cluster = ""
    stage.save(update_fields=["region", "cluster", "values"])
    delete_lock_claims(stage)


def delete_lock_claims(stage: StageExecution) -> None:
    """Let go of ECS services in a place that the stage has left; inside a commit."""
    ServiceLock.objects.filter(stage=stage).delete()
    stage.claims.all().delete()
