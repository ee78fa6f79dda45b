"""Which steps of a stage are current: a pure function of its rows, for steps in groups and side by side."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from deployments.models import StageExecution, StepExecution, StepGroup
from steps.states import TERMINAL, Status

ENDED_BADLY = (Status.FAILED, Status.EXPIRED, Status.APPROVAL_REJECTED)
AFTER_FAILURE = ("Failure", "All")
Node = StepExecution | StepGroup


class Flow:
    """The steps and groups of a stage as they are now."""

    def __init__(self, steps: Sequence[StepExecution], groups: Sequence[StepGroup] = ()) -> None:
        self.steps = sorted(steps, key=lambda step: step.position)
        self.groups = {group.pk: group for group in groups}
        self._inside: dict[int | None, list[Node]] = defaultdict(list)
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
        """The groups around a step, the outermost first."""
        found: list[StepGroup] = []
        key = step.group_id
        while key is not None:
            found.insert(0, self.groups[key])
            key = found[0].parent_id
        return found

    def beside(self, step: StepExecution) -> set[int]:
        """The steps in other branches of the parallels around a step: none of them waits for it."""
        found: set[int] = set()
        chain: list[Node] = [*self.around(step), step]
        for outer, inner in pairwise(chain):
            if isinstance(outer, StepGroup) and outer.kind == StepGroup.Kind.PARALLEL:
                own = {inner.pk} if isinstance(inner, StepExecution) else self._steps_inside(inner)
                found |= self._steps_inside(outer) - own
        return found

    def _steps_inside(self, group: StepGroup) -> set[int]:
        return {node.pk for node in self.inside(group) if isinstance(node, StepExecution)}

    def inside(self, group: StepGroup) -> Iterator[Node]:
        """All steps and groups within a group, however deep."""
        for node in self._inside[group.pk]:
            yield node
            if isinstance(node, StepGroup):
                yield from self.inside(node)

    def is_beside(self, one: StepExecution, other: StepExecution) -> bool:
        """Whether two steps are in different branches of one parallel."""
        return one.pk != other.pk and are_beside(self.around(one), self.around(other))

    def waits_for_failure(self) -> bool:
        """Whether a step that has not begun wants to run although a step before it failed."""
        return any(
            step.status == Status.QUEUED and step.started_at is None and self._wants_failure(step)
            for step in self.steps
        )

    def _wants_failure(self, step: StepExecution) -> bool:
        nodes: list[Node] = [group for group in self.around(step) if group.status == Status.QUEUED]
        return all(_after(node) in AFTER_FAILURE for node in [*nodes, step])

    def _current_inside(self, key: int | None, *, is_parallel: bool) -> list[StepExecution]:
        found: list[StepExecution] = []
        for node in self._inside[key]:
            if isinstance(node, StepGroup):
                found += self._current_inside(node.pk, is_parallel=node.kind == StepGroup.Kind.PARALLEL)
            elif node.status not in TERMINAL:
                found.append(node)
            if found and not is_parallel:
                break
        return found


def flow_of(stage: StageExecution, section: str = StepExecution.Section.EXECUTION) -> Flow:
    """Read the steps of a stage, forward or back."""
    steps = list(stage.steps.filter(section=section).order_by("position"))
    has_groups = any(step.group_id is not None for step in steps)
    return Flow(steps, list(stage.groups.order_by("position")) if has_groups else [])


def are_beside(one: Sequence[StepGroup], other: Sequence[StepGroup]) -> bool:
    """Whether two steps with these groups around them, outermost first, are in branches of one parallel."""
    shared = [a for a, b in zip(one, other, strict=False) if a == b]
    return bool(shared) and shared[-1].kind == StepGroup.Kind.PARALLEL


def _after(node: Node) -> str:
    return str((node.when or {}).get("stageStatus", "Success"))


def runs_after_failure(stage: StageExecution) -> bool:
    """Whether a stage wants to run although one before it failed."""
    return (stage.when or {}).get("pipelineStatus") in AFTER_FAILURE
