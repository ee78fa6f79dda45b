"""Geometry of the SVG charts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# In SVG units; the page scales them.
WIDTH, HEIGHT = 600.0, 120.0
COLUMN_GAP: Final = 0.2
# The smallest visible height.
MIN_BOX_HEIGHT: Final = 2.0
_FULL_PERCENT: Final = 100.0


@dataclass(frozen=True)
class ChartBox:
    """A rectangle; `kind` selects its color."""

    kind: str
    x: float
    y: float
    width: float
    height: float

    @property
    def path(self) -> str:
        """Return the SVG path of the outline."""
        return f"M{self.x} {self.y}h{self.width}v{self.height}h-{self.width}z"


@dataclass(frozen=True)
class ChartColumn:
    """One column of a bar chart: its boxes from the bottom up, and its text."""

    title: str
    boxes: tuple[ChartBox, ...]


def build_columns(values: Mapping[str, Mapping[str, int]]) -> tuple[ChartColumn, ...]:
    """Build stacked columns to one scale from the counts by kind, the first kind lowest."""
    maximum = max((sum(counts_of_column.values()) for counts_of_column in values.values()), default=0)
    pitch = WIDTH / max(len(values), 1)
    return tuple(
        ChartColumn(
            title,
            tuple(
                _stack_boxes(
                    counts, maximum, number * pitch + pitch * COLUMN_GAP / 2, pitch * (1 - COLUMN_GAP)
                )
            ),
        )
        for number, (title, counts) in enumerate(values.items())
    )


def _stack_boxes(counts: Mapping[str, int], maximum: int, x: float, width: float) -> Sequence[ChartBox]:
    boxes, top = [], HEIGHT
    for kind, number in counts.items():
        if number:
            height = max(number / maximum * HEIGHT, MIN_BOX_HEIGHT)
            top -= height
            boxes.append(
                ChartBox(kind, round(x, 2), round(max(top, 0), 2), round(width, 2), round(height, 2))
            )
    return boxes


@dataclass(frozen=True)
class AxisTick:
    """A tick of the value axis: its label and height."""

    label: str
    y: float


def build_percent_axis(values: Sequence[float | None]) -> tuple[AxisTick, ...]:
    """Build the ticks of a percent axis, the highest first."""
    maximum = compute_percent_maximum(values)
    return tuple(
        AxisTick(f"{value:g} %", _compute_height(value, maximum)) for value in (maximum, maximum / 2, 0.0)
    )


def compute_percent_maximum(values: Sequence[float | None]) -> float:
    """Return the end of a percent axis: 100, or the next round number above the values."""
    largest = max((value for value in values if value is not None), default=0.0)
    if largest <= _FULL_PERCENT:
        return _FULL_PERCENT
    unit = 10 ** math.floor(math.log10(largest)) / 2
    return math.ceil(largest / unit) * unit


def build_gap_boxes(values: Sequence[float | None]) -> tuple[ChartBox, ...]:
    """Build a box of full height for each stretch without values."""
    pitch = WIDTH / max(len(values), 1)
    boxes, start = [], None
    for number, value in enumerate([*values, 0.0]):
        if value is None:
            start = number if start is None else start
        elif start is not None:
            boxes.append(
                ChartBox("gap", round(start * pitch, 2), 0, round((number - start) * pitch, 2), HEIGHT)
            )
            start = None
    return tuple(boxes)


def _compute_height(value: float, maximum: float) -> float:
    # The stroke stays inside.
    return round((HEIGHT - 4) * (1 - min(value / maximum, 1)) + 2, 2)


def build_line_path(values: Sequence[float | None], *, maximum: float | None = None) -> str:
    """Build the path of a stepped line, with gaps where values are missing."""
    measured = [entry for entry in values if entry is not None]
    scale = maximum or max(measured, default=0) or 1
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
