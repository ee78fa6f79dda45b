"""Geometry of charts; templates draw them as SVG beside a table of the same values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Of the SVG's own space; the page stretches it.
WIDTH, HEIGHT = 600.0, 120.0
COLUMN_GAP: Final = 0.2
# So that a single one among many is still seen.
MIN_BOX_HEIGHT: Final = 2.0
_FULL_PERCENT: Final = 100.0


@dataclass(frozen=True)
class ChartBox:
    """A rectangle; `kind` decides its colour."""

    kind: str
    x: float
    y: float
    width: float
    height: float

    @property
    def path(self) -> str:
        """Its outline, for SVG."""
        return f"M{self.x} {self.y}h{self.width}v{self.height}h-{self.width}z"


@dataclass(frozen=True)
class ChartColumn:
    """One column of a bar chart: its boxes from the bottom up, and the words that it stands for."""

    title: str
    boxes: tuple[ChartBox, ...]


def build_columns(values: Mapping[str, Mapping[str, int]]) -> tuple[ChartColumn, ...]:
    """Stacked bars, one for each title, to one scale: what `values` counts by kind, the first lowest."""
    most = max((sum(one.values()) for one in values.values()), default=0)
    pitch = WIDTH / max(len(values), 1)
    return tuple(
        ChartColumn(
            title,
            tuple(
                _stack_boxes(counts, most, number * pitch + pitch * COLUMN_GAP / 2, pitch * (1 - COLUMN_GAP))
            ),
        )
        for number, (title, counts) in enumerate(values.items())
    )


def _stack_boxes(counts: Mapping[str, int], most: int, x: float, width: float) -> Sequence[ChartBox]:
    boxes, top = [], HEIGHT
    for kind, number in counts.items():
        if number:
            height = max(number / most * HEIGHT, MIN_BOX_HEIGHT)
            top -= height
            boxes.append(
                ChartBox(kind, round(x, 2), round(max(top, 0), 2), round(width, 2), round(height, 2))
            )
    return boxes


@dataclass(frozen=True)
class AxisTick:
    """A mark of the value axis: its words, and how high its line lies."""

    label: str
    y: float


def build_percent_axis(values: Sequence[float | None]) -> tuple[AxisTick, ...]:
    """The marks of an axis in per cent, the highest first: up to 100, or to what holds the largest value."""
    most = compute_percent_maximum(values)
    return tuple(AxisTick(f"{value:g} %", _compute_height(value, most)) for value in (most, most / 2, 0.0))


def compute_percent_maximum(values: Sequence[float | None]) -> float:
    """Where an axis in per cent ends: 100, or the next round number above the largest value."""
    largest = max((one for one in values if one is not None), default=0.0)
    if largest <= _FULL_PERCENT:
        return _FULL_PERCENT
    unit = 10 ** math.floor(math.log10(largest)) / 2
    return math.ceil(largest / unit) * unit


def build_gap_boxes(values: Sequence[float | None]) -> tuple[ChartBox, ...]:
    """A box as high as the chart for each stretch without a value."""
    pitch = WIDTH / max(len(values), 1)
    found, start = [], None
    for number, value in enumerate([*values, 0.0]):
        if value is None:
            start = number if start is None else start
        elif start is not None:
            found.append(
                ChartBox("gap", round(start * pitch, 2), 0, round((number - start) * pitch, 2), HEIGHT)
            )
            start = None
    return tuple(found)


def _compute_height(value: float, most: float) -> float:
    # The stroke stays inside.
    return round((HEIGHT - 4) * (1 - min(value / most, 1)) + 2, 2)


def build_line_path(values: Sequence[float | None], *, most: float | None = None) -> str:
    """The path of a stepped line, each value as wide as a column of as many; a gap where there is none."""
    known = [one for one in values if one is not None]
    scale = most or max(known, default=0) or 1
    pitch, path, is_drawing = WIDTH / max(len(values), 1), [], False
    for number, value in enumerate(values):
        if value is None:
            is_drawing = False
            continue
        y = _compute_height(value, scale)
        path.append(
            f"{'L' if is_drawing else 'M'}{round(number * pitch, 2)} {y}H{round((number + 1) * pitch, 2)}"
        )
        is_drawing = True
    return "".join(path)
