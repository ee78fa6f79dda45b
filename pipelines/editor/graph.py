"""Graph of a pipeline with the pixel positions of stages, groups and steps."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.definition.execution_outlines import OutlineGroup
from pipelines.definition.nesting import PARALLEL
from pipelines.definition.parser import GroupSpec, PipelineSpec, StageSpec, StepSpec

WIDTH = 470
_LEFT, _GAP, _HEAD, _STEP, _BETWEEN = 16, 12, 52, 40, 28
_COLUMN = (WIDTH - 2 * _LEFT - 36) // 2
_MAX_TITLE_CHARACTERS = 24
_LABEL, _INDENT = 22, 8


@dataclass(frozen=True)
class StepBox:
    """A step of the graph; `is_rollback` ones run only after a failure."""

    title: str
    kind: str
    x: int
    y: int
    is_rollback: bool
    width: int = _COLUMN
    height: int = _STEP

    @property
    def short(self) -> str:
        """Return the title, truncated to fit."""
        return _truncate(self.title, _MAX_TITLE_CHARACTERS)

    @property
    def short_kind(self) -> str:
        """Return the type, truncated to fit."""
        return _truncate(self.kind, _MAX_TITLE_CHARACTERS + 4)


@dataclass(frozen=True)
class GraphArrow:
    """An arrow between two points; `is_rollback` ones are taken after a failure."""

    x1: int
    y1: int
    x2: int
    y2: int
    is_rollback: bool = False


@dataclass(frozen=True)
class GroupBox:
    """A group around its steps."""

    title: str
    x: int
    y: int
    width: int
    height: int

    @property
    def short(self) -> str:
        """Return the title, truncated to fit."""
        return _truncate(self.title, _MAX_TITLE_CHARACTERS)


@dataclass(frozen=True)
class StageBox:
    """One stage around its steps."""

    title: str
    target: str
    y: int
    height: int
    steps: tuple[StepBox, ...]
    lines: tuple[GraphArrow, ...]
    frames: tuple[GroupBox, ...] = ()
    x: int = 1
    width: int = WIDTH - 2

    @property
    def short(self) -> str:
        """Return the title, truncated to fit."""
        return _truncate(self.title, _MAX_TITLE_CHARACTERS * 2)

    @property
    def short_target(self) -> str:
        """Return the service and target, truncated to fit."""
        return _truncate(self.target, _MAX_TITLE_CHARACTERS * 2 + 8)


@dataclass(frozen=True)
class PipelineGraph:
    """The graph of a pipeline."""

    name: str
    stages: tuple[StageBox, ...]
    lines: tuple[GraphArrow, ...]
    height: int
    width: int = WIDTH

    @property
    def has_rollback_steps(self) -> bool:
        return any(step.is_rollback for stage in self.stages for step in stage.steps)


def build_graph(pipeline: PipelineSpec) -> PipelineGraph:
    """Lay out a pipeline: stages below each other, rollback steps beside the steps."""
    stages: list[StageBox] = []
    top = 1
    for spec in pipeline.stages:
        stages.append(_build_stage(spec, top))
        top += stages[-1].height + _BETWEEN
    middle = WIDTH // 2
    lines = [
        GraphArrow(middle, stage.y + stage.height, middle, following.y)
        for stage, following in zip(stages, stages[1:], strict=False)
    ]
    return PipelineGraph(pipeline.name, tuple(stages), tuple(lines), top - _BETWEEN + 1)


def _build_stage(spec: StageSpec, top: int) -> StageBox:
    first = top + _HEAD
    steps = _StepColumn(_LEFT, first, spec.groups)
    steps.add(spec.steps)
    undoing = _StepColumn(WIDTH - _LEFT - _COLUMN, first, spec.rollback_groups, is_rollback=True)
    undoing.add(spec.rollback_steps)
    lines = steps.lines + undoing.lines
    if steps.boxes and undoing.boxes:
        y = first + _STEP // 2
        lines.append(GraphArrow(_LEFT + _COLUMN, y, undoing.boxes[0].x, y, is_rollback=True))
    return StageBox(
        title=spec.name,
        target=f"{spec.service} → {spec.environment} / {spec.infrastructure}",
        y=top,
        height=max(steps.y, undoing.y) - top + 4,
        steps=(*steps.boxes, *undoing.boxes),
        lines=tuple(lines),
        frames=(*steps.frames, *undoing.frames),
    )


class _StepColumn:
    """A column of steps; groups are frames, and only sequential steps are joined by arrows."""

    def __init__(self, x: int, y: int, groups: Sequence[GroupSpec], *, is_rollback: bool = False) -> None:
        self.x, self.y = x, y
        self.groups = groups
        self.is_rollback = is_rollback
        self.boxes: list[StepBox] = []
        self.frames: list[GroupBox] = []
        self.lines: list[GraphArrow] = []

    def add(self, specs: Sequence[StepSpec], group: int | None = None, depth: int = 0) -> None:
        """Lay out the direct children of a group: its steps and groups."""
        is_parallel = group is not None and self.groups[group].kind == PARALLEL
        above: int | None = None
        for inner, members in itertools.groupby(specs, lambda spec: self._get_child(spec, group)):
            for member in self._split_members(inner, list(members)):
                top = self.y
                if above is not None and not is_parallel:
                    middle = self.x + _COLUMN // 2
                    self.lines.append(GraphArrow(middle, above, middle, top, self.is_rollback))
                self._add_member(inner, member, depth)
                above = self.y - _GAP

    def _split_members(self, inner: int | None, members: list[StepSpec]) -> list[list[StepSpec]]:
        return [[member] for member in members] if inner is None else [members]

    def _add_member(self, inner: int | None, members: list[StepSpec], depth: int) -> None:
        indent = depth * _INDENT
        if inner is None:
            spec = members[0]
            width = _COLUMN - 2 * indent
            box = StepBox(spec.name, spec.type, self.x + indent, self.y, self.is_rollback, width=width)
            self.boxes.append(box)
            self.y += _STEP + _GAP
            return
        top = self.y
        self.y += _LABEL
        self.add(members, inner, depth + 1)
        group = self.groups[inner]
        title = OutlineGroup(group.kind, group.name, None).text
        height = self.y - _GAP - top + _INDENT
        self.frames.append(GroupBox(title, self.x + indent, top, _COLUMN - 2 * indent, height))
        self.y += _INDENT

    def _get_child(self, spec: StepSpec, group: int | None) -> int | None:
        """Return the direct child of `group` that contains a step; None if the step itself is one."""
        child: int | None = None
        key = spec.group
        while key is not None and key != group:
            child, key = key, self.groups[key].parent
        return child


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
