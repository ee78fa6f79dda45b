"""Scheduler of the current steps of a stage, in groups and in parallel branches."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from deployments.models import StageExecution, StepExecution, StepGroup
from steps.states import TERMINAL_STATUSES, Status

ENDED_BADLY = (Status.FAILED, Status.EXPIRED, Status.APPROVAL_REJECTED)
AFTER_FAILURE = ("Failure", "All")
FlowNode = StepExecution | StepGroup


class StepFlow:
    """Steps and groups of a stage in their current state."""

    def __init__(self, steps: Sequence[StepExecution], groups: Sequence[StepGroup] = ()) -> None:
        self.steps = sorted(steps, key=lambda step: step.position)
        self.groups = {group.pk: group for group in groups}
        self._inside: dict[int | None, list[FlowNode]] = defaultdict(list)
        for step in self.steps:
            self._inside[step.group_id].append(step)
        for group in groups:
            self._inside[group.parent_id].append(group)
        for nodes in self._inside.values():
            nodes.sort(key=lambda node: node.position)

    def list_current(self) -> list[StepExecution]:
        """Return the steps that run or may start: one in a sequence, one per branch in a parallel."""
        return self._list_current_in(None, is_parallel=False)

    def list_outer_groups(self, step: StepExecution) -> list[StepGroup]:
        """Return the groups around a step, the outermost first."""
        groups: list[StepGroup] = []
        key = step.group_id
        while key is not None:
            groups.insert(0, self.groups[key])
            key = groups[0].parent_id
        return groups

    def list_parallel_steps(self, step: StepExecution) -> set[int]:
        """Return the steps in parallel branches of a step."""
        step_ids: set[int] = set()
        nodes: list[FlowNode] = [*self.list_outer_groups(step), step]
        for outer, inner in pairwise(nodes):
            if isinstance(outer, StepGroup) and outer.kind == StepGroup.Kind.PARALLEL:
                branch = {inner.pk} if isinstance(inner, StepExecution) else self._list_inner_steps(inner)
                step_ids |= self._list_inner_steps(outer) - branch
        return step_ids

    def _list_inner_steps(self, group: StepGroup) -> set[int]:
        return {node.pk for node in self.list_inner_nodes(group) if isinstance(node, StepExecution)}

    def list_inner_nodes(self, group: StepGroup) -> Iterator[FlowNode]:
        """Yield all steps and groups within a group, however deep."""
        for node in self._inside[group.pk]:
            yield node
            if isinstance(node, StepGroup):
                yield from self.list_inner_nodes(node)

    def is_parallel(self, step: StepExecution, other: StepExecution) -> bool:
        """Return whether two steps are in different branches of one parallel."""
        return step.pk != other.pk and are_parallel(
            self.list_outer_groups(step), self.list_outer_groups(other)
        )

    def has_steps_after_failure(self) -> bool:
        """Return whether an unstarted step runs although an earlier step failed."""
        return any(
            step.status == Status.QUEUED and step.started_at is None and self._runs_after_failure(step)
            for step in self.steps
        )

    def _runs_after_failure(self, step: StepExecution) -> bool:
        nodes: list[FlowNode] = [
            group for group in self.list_outer_groups(step) if group.status == Status.QUEUED
        ]
        return all(_get_stage_status(node) in AFTER_FAILURE for node in [*nodes, step])

    def _list_current_in(self, key: int | None, *, is_parallel: bool) -> list[StepExecution]:
        steps: list[StepExecution] = []
        for node in self._inside[key]:
            if isinstance(node, StepGroup):
                steps += self._list_current_in(node.pk, is_parallel=node.kind == StepGroup.Kind.PARALLEL)
            elif node.status not in TERMINAL_STATUSES:
                steps.append(node)
            if steps and not is_parallel:
                break
        return steps


def read_flow(stage: StageExecution, section: str = StepExecution.Section.EXECUTION) -> StepFlow:
    """Read the steps of one section of a stage."""
    steps = list(stage.steps.filter(section=section).order_by("position"))
    has_groups = any(step.group_id is not None for step in steps)
    return StepFlow(steps, list(stage.groups.order_by("position")) if has_groups else [])


def are_parallel(groups: Sequence[StepGroup], other_groups: Sequence[StepGroup]) -> bool:
    """Return whether two steps with these groups, outermost first, are in parallel branches."""
    common = [a for a, b in zip(groups, other_groups, strict=False) if a == b]
    return bool(common) and common[-1].kind == StepGroup.Kind.PARALLEL


def _get_stage_status(node: FlowNode) -> str:
    return str((node.when or {}).get("stageStatus", "Success"))


def runs_after_failure(stage: StageExecution) -> bool:
    """Return whether a stage runs although an earlier one failed."""
    return (stage.when or {}).get("pipelineStatus") in AFTER_FAILURE


@dataclass
class StepScheduler:
    """Waits and advances of the steps in one reconcile pass, over all its commits."""

    _wait_until: dict[int, datetime] = field(default_factory=dict)
    _advance_counts: Counter[int] = field(default_factory=Counter)

    def choose_step(self, steps: Sequence[StepExecution]) -> StepExecution | None:
        """Return the step to advance: the least often advanced of those that need not wait."""
        ready = [step for step in steps if step.pk not in self._wait_until]
        step = min(ready, key=lambda step: (self._advance_counts[step.pk], step.position), default=None)
        if step is not None:
            self._advance_counts[step.pk] += 1
        return step

    def wait(self, step: StepExecution, until: datetime) -> None:
        """Let this step wait until a time."""
        self._wait_until[step.pk] = until

    def get_remaining_wait(self, steps: Sequence[StepExecution], now: datetime) -> timedelta:
        """Return the time until the first of these steps continues."""
        return max(min(self._wait_until[step.pk] for step in steps) - now, timedelta(0))
