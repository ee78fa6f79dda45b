"""Whether a stage, a group or a step runs at all: its `when`, asked once, as it would begin."""

from collections.abc import Iterable, Mapping
from typing import Any

from deployments.engine.flow import ENDED_BADLY, Node
from deployments.engine.shared import Shared
from deployments.engine.telling import say
from deployments.models import ActionRun, StepExecution, StepGroup
from steps.conditions import UnclearConditionError, read_condition
from steps.states import ActionState, Status

_FAILED = (*ENDED_BADLY, Status.ABORTED)
LONGEST_REASON = 512


def stage_reason(shared: Shared) -> str:
    """Why the stage does not run; nothing if it does. Raises `UnclearConditionError`."""
    before = [one for one in shared.rows.stages if one.position < shared.stage.position]
    has_failed = any(stage.status in _FAILED for stage in before)
    return _reason(shared, shared.stage.when, "pipelineStatus", "stage", has_failed=has_failed)


def is_skipped(shared: Shared, step: StepExecution) -> bool:
    """Ask of the groups around a step that have not begun, then of the step; skip what is not to run.

    Raises `UnclearConditionError`.
    """
    if step.when is None and step.group_id is None:
        if reason := _reason_of(shared, step, None):
            _skip(shared, step, [step], reason)
        return bool(reason)
    flow = shared.rows.flow_of(shared.stage, step.section)
    nodes: list[Node] = [*flow.around(step), step]
    for node in nodes:
        if isinstance(node, StepGroup) and node.status != Status.QUEUED:
            continue
        reason = _reason_of(shared, step, node.when)
        if reason:
            inside = list(flow.inside(node)) if isinstance(node, StepGroup) else []
            _skip(shared, step, [node, *inside], reason)
            return True
        if isinstance(node, StepGroup):
            shared.change(node, status=Status.RUNNING)
            shared.save()
    return False


def skip_stage(shared: Shared, reason: str) -> None:
    """The stage does not run: neither do its steps."""
    stage = shared.stage
    with shared.commit(reload=True):
        say(shared, None, f"Stage {stage.name} is skipped {reason}", "warning")
        stage.status, stage.skipped_because = Status.SKIPPED, reason[:LONGEST_REASON]
        stage.save(update_fields=["status", "skipped_because"])
        _skip_rows(list(stage.steps.all()), "")


def _reason_of(shared: Shared, step: StepExecution, when: Mapping[str, Any] | None) -> str:
    """Why a step, or a group around it, does not run; a rollback runs whatever came of those before it."""
    has_failed = any(one.status in _FAILED for one in shared.rows.steps_of(shared.stage, step.section))
    if step.section == StepExecution.Section.ROLLBACK:
        return _reason(
            shared, when or {"stageStatus": "All"}, "stageStatus", "rollback", has_failed=has_failed
        )
    return _reason(shared, when, "stageStatus", "step", has_failed=has_failed)


def _reason(
    shared: Shared, when: Mapping[str, Any] | None, status: str, what: str, *, has_failed: bool
) -> str:
    after = (when or {}).get(status, "Success")
    if has_failed and after == "Success":
        return f"because a {what} before it failed"
    if not has_failed and after == "Failure":
        return f"because no {what} before it failed"
    condition = (when or {}).get("condition")
    if condition is None or read_condition(condition).holds(shared.known_values()):
        return ""
    return f"because this is false: {condition}"


def _skip(shared: Shared, step: StepExecution, nodes: list[Node], reason: str) -> None:
    outer = nodes[0]
    what = "Step" if isinstance(outer, StepExecution) else "Group"
    with shared.commit(reload=True):
        say(shared, step, f"{what} {outer.name or 'of parallel steps'} is skipped {reason}", "warning")
        _skip_rows(nodes, reason)


def _skip_rows(nodes: Iterable[Node], reason: str) -> None:
    for node in nodes:
        node.status, node.skipped_because = Status.SKIPPED, reason[:LONGEST_REASON]
        node.save(update_fields=["status", "skipped_because"])
    steps = [node for node in nodes if isinstance(node, StepExecution)]
    waiting = ActionRun.objects.filter(step__in=steps, state=ActionState.WAITING)
    waiting.update(state=ActionState.SKIPPED)


__all__ = ["UnclearConditionError", "is_skipped", "skip_stage", "stage_reason"]
