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
    """The steps and groups of a stage as they are now."""

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

    def current(self) -> list[StepExecution]:
        """The steps that run or may begin: one after the other, and of a parallel one of each branch."""
        return self._current_inside(None, is_parallel=False)

    def around(self, step: StepExecution) -> list[StepGroup]:
        """Return the groups around a step, the outermost first."""
        found: list[StepGroup] = []
        key = step.group_id
        while key is not None:
            found.insert(0, self.groups[key])
            key = found[0].parent_id
        return found

    def beside(self, step: StepExecution) -> set[int]:
        """Return the steps in other branches of the parallels around a step: none of them waits for it."""
        found: set[int] = set()
        chain: list[FlowNode] = [*self.around(step), step]
        for outer, inner in pairwise(chain):
            if isinstance(outer, StepGroup) and outer.kind == StepGroup.Kind.PARALLEL:
                own = {inner.pk} if isinstance(inner, StepExecution) else self._steps_inside(inner)
                found |= self._steps_inside(outer) - own
        return found

    def _steps_inside(self, group: StepGroup) -> set[int]:
        return {node.pk for node in self.inside(group) if isinstance(node, StepExecution)}

    def inside(self, group: StepGroup) -> Iterator[FlowNode]:
        """Yield all steps and groups within a group, however deep."""
        for node in self._inside[group.pk]:
            yield node
            if isinstance(node, StepGroup):
                yield from self.inside(node)

    def is_beside(self, one: StepExecution, other: StepExecution) -> bool:
        """Return whether two steps are in different branches of one parallel."""
        return one.pk != other.pk and are_parallel(self.around(one), self.around(other))

    def waits_for_failure(self) -> bool:
        """Return whether a step that has not begun wants to run although a step before it failed."""
        return any(
            step.status == Status.QUEUED and step.started_at is None and self._wants_failure(step)
            for step in self.steps
        )

    def _wants_failure(self, step: StepExecution) -> bool:
        nodes: list[FlowNode] = [group for group in self.around(step) if group.status == Status.QUEUED]
        return all(_after(node) in AFTER_FAILURE for node in [*nodes, step])

    def _current_inside(self, key: int | None, *, is_parallel: bool) -> list[StepExecution]:
        found: list[StepExecution] = []
        for node in self._inside[key]:
            if isinstance(node, StepGroup):
                found += self._current_inside(node.pk, is_parallel=node.kind == StepGroup.Kind.PARALLEL)
            elif node.status not in TERMINAL_STATUSES:
                found.append(node)
            if found and not is_parallel:
                break
        return found


def read_flow(stage: StageExecution, section: str = StepExecution.Section.EXECUTION) -> StepFlow:
    """Read the steps of a stage, forward or back."""
    steps = list(stage.steps.filter(section=section).order_by("position"))
    has_groups = any(step.group_id is not None for step in steps)
    return StepFlow(steps, list(stage.groups.order_by("position")) if has_groups else [])


def are_parallel(one: Sequence[StepGroup], other: Sequence[StepGroup]) -> bool:
    """Whether two steps with these groups around them, outermost first, are in branches of one parallel."""
    common = [a for a, b in zip(one, other, strict=False) if a == b]
    return bool(common) and common[-1].kind == StepGroup.Kind.PARALLEL


def _after(node: FlowNode) -> str:
    return str((node.when or {}).get("stageStatus", "Success"))


def runs_after_failure(stage: StageExecution) -> bool:
    """Return whether a stage wants to run although one before it failed."""
    return (stage.when or {}).get("pipelineStatus") in AFTER_FAILURE


@dataclass
class StepScheduler:
    """Waits and advances of the steps in one reconcile pass, over all its commits."""

    _until: dict[int, datetime] = field(default_factory=dict)
    _taken: Counter[int] = field(default_factory=Counter)

    def next_of(self, steps: Sequence[StepExecution]) -> StepExecution | None:
        """Return the step to advance: of those that need not wait, the least often advanced."""
        ready = [step for step in steps if step.pk not in self._until]
        found = min(ready, key=lambda step: (self._taken[step.pk], step.position), default=None)
        if found is not None:
            self._taken[found.pk] += 1
        return found

    def wait(self, step: StepExecution, until: datetime) -> None:
        """This step has nothing to do before that moment."""
        self._until[step.pk] = until

    def left(self, steps: Sequence[StepExecution], now: datetime) -> timedelta:
        """Return how long until the first of these steps goes on."""
        return max(min(self._until[step.pk] for step in steps) - now, timedelta(0))
