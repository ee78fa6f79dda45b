"""Preconditions of a step: its conditions and its dynamic infrastructure."""

from collections.abc import Iterable, Mapping
from typing import Any

from catalog import infrastructure_checks
from deployments.engine.reconcile_context import ReconcileContext, append_log
from deployments.engine.steps.scheduler import ENDED_BADLY, FlowNode
from deployments.models import ActionRun, ServiceLock, StageExecution, StepExecution, StepGroup
from steps.actions.base import ActionFailed
from steps.conditions import parse_condition
from steps.expressions import BadExpressionError, resolve_expressions
from steps.states import ActionState, Status

_FAILED = (*ENDED_BADLY, Status.ABORTED)
LONGEST_REASON = 512


def get_skip_reason(reconcile_context: ReconcileContext) -> str:
    """Return why the stage is skipped; empty if it runs. Raises `UnclearConditionError`."""
    earlier_stages = [
        other_stage
        for other_stage in reconcile_context.rows.stages
        if other_stage.position < reconcile_context.stage.position
    ]
    has_failed = any(stage.status in _FAILED for stage in earlier_stages)
    return _evaluate_condition(
        reconcile_context, reconcile_context.stage.when, "pipelineStatus", "stage", has_failed=has_failed
    )


def skip_if_unmet(reconcile_context: ReconcileContext, step: StepExecution) -> bool:
    """Skip a step, or a group around it, whose condition is not met; return whether it was skipped.

    Groups that have started are not evaluated again. Raises `UnclearConditionError`.
    """
    if step.when is None and step.group_id is None:
        if reason := _get_step_reason(reconcile_context, step, None):
            _skip(reconcile_context, step, [step], reason)
        return bool(reason)
    flow = reconcile_context.rows.build_flow(reconcile_context.stage, step.section)
    nodes: list[FlowNode] = [*flow.list_outer_groups(step), step]
    for node in nodes:
        if isinstance(node, StepGroup) and node.status != Status.QUEUED:
            continue
        reason = _get_step_reason(reconcile_context, step, node.when)
        if reason:
            inner_nodes = list(flow.list_inner_nodes(node)) if isinstance(node, StepGroup) else []
            _skip(reconcile_context, step, [node, *inner_nodes], reason)
            return True
        if isinstance(node, StepGroup):
            reconcile_context.change(node, status=Status.RUNNING)
            reconcile_context.save()
    return False


def skip_stage(reconcile_context: ReconcileContext, reason: str) -> None:
    """Skip the stage and its steps."""
    stage = reconcile_context.stage
    with reconcile_context.commit(reload=True):
        append_log(reconcile_context, None, f"Stage {stage.name} is skipped {reason}", "warning")
        stage.status, stage.skip_reason = Status.SKIPPED, reason[:LONGEST_REASON]
        stage.save(update_fields=["status", "skip_reason"])
        _skip_rows(list(stage.steps.all()), "")


def _get_step_reason(
    reconcile_context: ReconcileContext, step: StepExecution, when: Mapping[str, Any] | None
) -> str:
    """Return why a step or group is skipped; a rollback step by default always runs."""
    has_failed = any(
        other_step.status in _FAILED
        for other_step in reconcile_context.rows.list_section_steps(reconcile_context.stage, step.section)
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
    noun: str,
    *,
    has_failed: bool,
) -> str:
    required_status = (when or {}).get(status, "Success")
    if has_failed and required_status == "Success":
        return f"because a {noun} before it failed"
    if not has_failed and required_status == "Failure":
        return f"because no {noun} before it failed"
    condition = (when or {}).get("condition")
    if condition is None or parse_condition(condition).holds(reconcile_context.build_values()):
        return ""
    return f"because this is false: {condition}"


def _skip(
    reconcile_context: ReconcileContext, step: StepExecution, nodes: list[FlowNode], reason: str
) -> None:
    outer = nodes[0]
    noun = "Step" if isinstance(outer, StepExecution) else "Group"
    with reconcile_context.commit(reload=True):
        append_log(
            reconcile_context,
            step,
            f"{noun} {outer.name or 'of parallel steps'} is skipped {reason}",
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
    """Resolve region and cluster of the stage before the first step after its provisioner.

    A resolved stage keeps its location. Raises `ActionFailed` for an unknown or invalid value.
    """
    stage = reconcile_context.stage
    if stage.dynamic_location is None or stage.has_location or step.position < stage.provisioner_step_count:
        return
    location = _read_location(reconcile_context)
    with reconcile_context.commit(reload=True):
        stage.region, stage.cluster, stage.account = location["region"], location["cluster"], ""
        stage.values = {**stage.values, "infra": {**stage.values.get("infra", {}), **location}}
        stage.save(update_fields=["region", "cluster", "account", "values"])
        delete_lock_claims(stage)
        append_log(
            reconcile_context, step, f"Deploying to the provisioned cluster {stage.cluster} in {stage.region}"
        )
    reconcile_context.reload_claims()


def _read_location(reconcile_context: ReconcileContext) -> dict[str, str]:
    stage = reconcile_context.stage
    values = reconcile_context.build_values()
    expressions: dict[str, Any] = stage.dynamic_location or {}
    location: dict[str, str] = {}
    for name, describe_problem in (
        ("region", infrastructure_checks.describe_region_problem),
        ("cluster", infrastructure_checks.describe_cluster_problem),
    ):
        text = str(expressions.get(name, ""))
        try:
            location[name] = str(resolve_expressions(text, values)).strip()
        except BadExpressionError as bad:
            raise ActionFailed(_CODE, f"The {name} of the infrastructure, {text}: {bad.message}") from bad
        if problem := describe_problem(location[name]):
            sentence = f"The {name} of the infrastructure, {text}, came to {location[name][:100]!r}."
            raise ActionFailed(_CODE, reconcile_context.mask.mask_text(f"{sentence} {problem}"))
    return location


def reset_infrastructure(stage: StageExecution) -> None:
    """Clear region and cluster of a stage whose provisioner runs again; inside a commit."""
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
    """Delete locks and claims in the previous location of a stage; inside a commit."""
    ServiceLock.objects.filter(stage=stage).delete()
    stage.claims.all().delete()
