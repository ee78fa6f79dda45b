"""The graph of a pipeline: where each stage and step is drawn, in pixels from the top left."""

from collections.abc import Sequence
from dataclasses import dataclass

from deployments.pipelines import PipelineSpec, StageSpec, StepSpec

WIDTH = 470
_LEFT, _GAP, _HEAD, _STEP, _BETWEEN = 16, 12, 52, 40, 28
_COLUMN = (WIDTH - 2 * _LEFT - 36) // 2
_MOST_LETTERS = 24


@dataclass(frozen=True)
class StepBox:
    """One step; `is_rollback` ones run only after a failure."""

    title: str
    kind: str
    x: int
    y: int
    is_rollback: bool
    width: int = _COLUMN
    height: int = _STEP

    @property
    def short(self) -> str:
        """The title, as much of it as there is room for."""
        return _short(self.title, _MOST_LETTERS)

    @property
    def short_kind(self) -> str:
        """The type, as much of it as there is room for."""
        return _short(self.kind, _MOST_LETTERS + 4)


@dataclass(frozen=True)
class Line:
    """An arrow from one point to another; `is_rollback` ones are taken after a failure."""

    x1: int
    y1: int
    x2: int
    y2: int
    is_rollback: bool = False


@dataclass(frozen=True)
class StageBox:
    """One stage around its steps."""

    title: str
    target: str
    y: int
    height: int
    steps: tuple[StepBox, ...]
    lines: tuple[Line, ...]
    x: int = 1
    width: int = WIDTH - 2

    @property
    def short(self) -> str:
        """The title, as much of it as there is room for."""
        return _short(self.title, _MOST_LETTERS * 2)

    @property
    def short_target(self) -> str:
        """What goes where, as much of it as there is room for."""
        return _short(self.target, _MOST_LETTERS * 2 + 8)


@dataclass(frozen=True)
class Graph:
    """A pipeline as it is drawn."""

    name: str
    stages: tuple[StageBox, ...]
    lines: tuple[Line, ...]
    height: int
    width: int = WIDTH


def graph_of(pipeline: PipelineSpec) -> Graph:
    """Lay out a pipeline: stages below each other, what undoes them beside their steps."""
    stages: list[StageBox] = []
    top = 1
    for spec in pipeline.stages:
        stages.append(_stage(spec, top))
        top += stages[-1].height + _BETWEEN
    middle = WIDTH // 2
    lines = [
        Line(middle, one.y + one.height, middle, following.y)
        for one, following in zip(stages, stages[1:], strict=False)
    ]
    return Graph(pipeline.name, tuple(stages), tuple(lines), top - _BETWEEN + 1)


def _stage(spec: StageSpec, top: int) -> StageBox:
    first = top + _HEAD
    steps = _column(spec.steps, _LEFT, first, is_rollback=False)
    undoing = _column(spec.rollback_steps, WIDTH - _LEFT - _COLUMN, first, is_rollback=True)
    lines = _downward(steps) + _downward(undoing)
    if steps and undoing:
        y = first + _STEP // 2
        lines.append(Line(_LEFT + _COLUMN, y, undoing[0].x, y, is_rollback=True))
    rows = max(len(steps), len(undoing))
    return StageBox(
        title=spec.name,
        target=f"{spec.service} → {spec.environment} / {spec.infrastructure}",
        y=top,
        height=_HEAD + rows * (_STEP + _GAP) + 4,
        steps=(*steps, *undoing),
        lines=tuple(lines),
    )


def _column(specs: Sequence[StepSpec], x: int, top: int, *, is_rollback: bool) -> list[StepBox]:
    return [
        StepBox(spec.name, spec.type, x, top + number * (_STEP + _GAP), is_rollback)
        for number, spec in enumerate(specs)
    ]


def _downward(boxes: Sequence[StepBox]) -> list[Line]:
    middle = _COLUMN // 2
    return [
        Line(one.x + middle, one.y + one.height, one.x + middle, following.y, one.is_rollback)
        for one, following in zip(boxes, boxes[1:], strict=False)
    ]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
