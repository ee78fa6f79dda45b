"""Draws a day of numbers as SVG paths: a line over 24 hours, open where nothing was measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from delegates.queries.delegate_history import DAY, QUARTER, Quarter

WIDTH, HEIGHT = 288, 64
FLOOR = 2.0


@dataclass(frozen=True)
class Chart:
    """One line: its paths, the scale, and what a reader hears instead."""

    title: str
    unit: str
    paths: tuple[str, ...]
    top: float
    newest: float
    summary: str


def charts_of(day: Sequence[Quarter], now: datetime) -> list[Chart]:
    """CPU, memory and tasks of a day; nothing where nothing was measured."""
    if not day:
        return []
    return [
        _chart("CPU", "%", day, now, lambda one: one.cpu),
        _chart("Memory", "MiB", day, now, lambda one: one.memory),
        _chart("Tasks", "running", day, now, lambda one: one.running),
    ]


def _chart(
    title: str, unit: str, day: Sequence[Quarter], now: datetime, value: Callable[[Quarter], float]
) -> Chart:
    values = [value(one) for one in day]
    top = max(*values, 1.0)
    points = [(_x(one.at, now), _y(value(one), top)) for one in day]
    summary = f"{title}: {values[-1]:.1f} {unit} now, {max(values):.1f} {unit} at most within a day."
    return Chart(title, unit, tuple(_paths(points)), top, values[-1], summary)


def _x(at: datetime, now: datetime) -> float:
    begun = now - DAY
    return WIDTH * max(timedelta(), at - begun) / DAY


def _y(value: float, top: float) -> float:
    return HEIGHT - FLOOR - (HEIGHT - 2 * FLOOR) * value / top


def _paths(points: Sequence[tuple[float, float]]) -> list[str]:
    """A path for each stretch without a gap; a single point becomes a short dash."""
    step = WIDTH * QUARTER / DAY
    stretches: list[list[tuple[float, float]]] = []
    for point in points:
        if stretches and point[0] - stretches[-1][-1][0] < 1.5 * step:
            stretches[-1].append(point)
        else:
            stretches.append([point])
    return [_path(stretch, step) for stretch in stretches]


def _path(stretch: Sequence[tuple[float, float]], step: float) -> str:
    (first_x, first_y), *rest = stretch
    lines = "".join(f"L{x:.1f} {y:.1f}" for x, y in rest) or f"h{step:.1f}"
    return f"M{first_x:.1f} {first_y:.1f}{lines}"
