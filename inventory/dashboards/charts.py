"""Where the shapes of a chart stand; templates draw them as SVG, and a table beside says the same."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Of the SVG's own space; the page stretches it.
WIDTH, HEIGHT = 600.0, 120.0
GAP: Final = 0.2
# So that a single one among many is still seen.
LEAST: Final = 2.0
_HUNDRED: Final = 100.0


@dataclass(frozen=True)
class Box:
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
class Column:
    """One column of a bar chart: its boxes from the bottom up, and the words that it stands for."""

    title: str
    boxes: tuple[Box, ...]


def columns(values: Mapping[str, Mapping[str, int]]) -> tuple[Column, ...]:
    """Stacked bars, one for each title, to one scale: what `values` counts by kind, the first lowest."""
    most = max((sum(one.values()) for one in values.values()), default=0)
    pitch = WIDTH / max(len(values), 1)
    return tuple(
        Column(title, tuple(_stacked(counts, most, number * pitch + pitch * GAP / 2, pitch * (1 - GAP))))
        for number, (title, counts) in enumerate(values.items())
    )


def _stacked(counts: Mapping[str, int], most: int, x: float, width: float) -> Sequence[Box]:
    boxes, top = [], HEIGHT
    for kind, number in counts.items():
        if number:
            height = max(number / most * HEIGHT, LEAST)
            top -= height
            boxes.append(Box(kind, round(x, 2), round(max(top, 0), 2), round(width, 2), round(height, 2)))
    return boxes


@dataclass(frozen=True)
class Tick:
    """A mark of the value axis: its words, and how high its line lies."""

    label: str
    y: float


def axis_of_shares(values: Sequence[float | None]) -> tuple[Tick, ...]:
    """The marks of an axis in per cent, the highest first: up to 100, or to what holds the largest value."""
    most = top_of_shares(values)
    return tuple(Tick(f"{value:g} %", _height_of(value, most)) for value in (most, most / 2, 0.0))


def top_of_shares(values: Sequence[float | None]) -> float:
    """Where an axis in per cent ends: 100, or the next round number above the largest value."""
    largest = max((one for one in values if one is not None), default=0.0)
    if largest <= _HUNDRED:
        return _HUNDRED
    unit = 10 ** math.floor(math.log10(largest)) / 2
    return math.ceil(largest / unit) * unit


def gaps(values: Sequence[float | None]) -> tuple[Box, ...]:
    """A box as high as the chart for each stretch without a value."""
    pitch = WIDTH / max(len(values), 1)
    found, start = [], None
    for number, value in enumerate([*values, 0.0]):
        if value is None:
            start = number if start is None else start
        elif start is not None:
            found.append(Box("gap", round(start * pitch, 2), 0, round((number - start) * pitch, 2), HEIGHT))
            start = None
    return tuple(found)


def _height_of(value: float, most: float) -> float:
    # The stroke stays inside.
    return round((HEIGHT - 4) * (1 - min(value / most, 1)) + 2, 2)


def line(values: Sequence[float | None], *, most: float | None = None) -> str:
    """The path of a stepped line, each value as wide as a column of as many; a gap where there is none."""
    known = [one for one in values if one is not None]
    scale = most or max(known, default=0) or 1
    pitch, path, is_drawing = WIDTH / max(len(values), 1), [], False
    for number, value in enumerate(values):
        if value is None:
            is_drawing = False
            continue
        y = _height_of(value, scale)
        path.append(
            f"{'L' if is_drawing else 'M'}{round(number * pitch, 2)} {y}H{round((number + 1) * pitch, 2)}"
        )
        is_drawing = True
    return "".join(path)
