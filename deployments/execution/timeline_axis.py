"""Time axis of a timeline: linear, with long stretches cut in which nothing happens."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

# A shorter stretch without any event is never cut.
SHORTEST_CUT: Final = timedelta(minutes=5)
# A stretch is cut if it is longer than this share of the rest, to half of that share.
_CUT_SHARE: Final = 1 / 3
_MOST_TICKS: Final = 7
_TICK_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400),
    *(2 * 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400),
)
# Percent of the width that a label of a tick needs.
_LABEL_WIDTH: Final = 11.0


@dataclass(frozen=True)
class AxisSegment:
    """Stretch of time with its position in percent of the width; a cut one is drawn shorter than it is."""

    start: datetime
    end: datetime
    x: float
    width: float
    is_cut: bool

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 3)


@dataclass(frozen=True)
class AxisTick:
    """Label of the axis; one of another day than the start has its date."""

    at: datetime
    x: float
    has_date: bool


@dataclass(frozen=True)
class TimeAxis:
    """Segments of a time axis from 0 to 100 percent."""

    segments: tuple[AxisSegment, ...]

    @property
    def start(self) -> datetime:
        return self.segments[0].start

    @property
    def end(self) -> datetime:
        return self.segments[-1].end

    @property
    def cuts(self) -> list[AxisSegment]:
        return [segment for segment in self.segments if segment.is_cut]

    def get_position(self, at: datetime) -> float:
        """Return the position of a moment in percent."""
        number = bisect_right([segment.start for segment in self.segments], at) - 1
        segment = self.segments[max(0, number)]
        share = (at - segment.start).total_seconds() / segment.seconds if segment.seconds else 0.0
        return round(segment.x + segment.width * min(max(share, 0.0), 1.0), 3)

    def list_ticks(self) -> list[AxisTick]:
        """Return labels at round times of day, none of which overlap."""
        linear = [segment for segment in self.segments if not segment.is_cut]
        total = sum(segment.seconds for segment in linear)
        step = next((step for step in _TICK_STEPS if total / step <= _MOST_TICKS), _TICK_STEPS[-1])
        ticks: list[AxisTick] = []
        for segment in linear:
            for at in _list_round_times(segment, step):
                x = self.get_position(at)
                if not ticks or x - ticks[-1].x >= _LABEL_WIDTH:
                    ticks.append(AxisTick(at, x, at.date() != self.start.astimezone(UTC).date()))
        return ticks


def build_axis(moments: Iterable[datetime]) -> TimeAxis:
    """Return the axis of these moments.

    A stretch between two of them is cut if it is longer than five minutes and than a third of all shorter
    stretches together. It then takes a sixth of them, and less if many are cut.
    """
    times = sorted(set(moments))
    stretches = list(pairwise(times)) or [(times[0], times[0] + timedelta(seconds=1))]
    rest = sum(_get_seconds(stretch) for stretch in stretches if not _is_long(stretch))
    cuts = [
        stretch for stretch in stretches if _is_long(stretch) and _get_seconds(stretch) > rest * _CUT_SHARE
    ]
    cut_width = rest / max(2 / _CUT_SHARE, 2 * len(cuts)) or 1.0
    return TimeAxis(tuple(_place_segments(_merge_stretches(stretches, cuts), cut_width)))


Stretch = tuple[datetime, datetime]


def _get_seconds(stretch: Stretch) -> float:
    return (stretch[1] - stretch[0]).total_seconds()


def _is_long(stretch: Stretch) -> bool:
    return stretch[1] - stretch[0] > SHORTEST_CUT


def _merge_stretches(stretches: Sequence[Stretch], cuts: Sequence[Stretch]) -> list[tuple[Stretch, bool]]:
    """Join neighbors that are not cut, because they have the same scale."""
    cut_starts = {start for start, _ in cuts}
    merged: list[tuple[Stretch, bool]] = []
    for start, end in stretches:
        is_cut = start in cut_starts
        if merged and not is_cut and not merged[-1][1]:
            merged[-1] = ((merged[-1][0][0], end), False)
        else:
            merged.append(((start, end), is_cut))
    return merged


def _place_segments(merged: Sequence[tuple[Stretch, bool]], cut_width: float) -> Iterable[AxisSegment]:
    lengths = [cut_width if is_cut else _get_seconds(stretch) for stretch, is_cut in merged]
    total, x = sum(lengths) or 1.0, 0.0
    for (stretch, is_cut), length in zip(merged, lengths, strict=True):
        width = 100 * length / total
        yield AxisSegment(*stretch, round(x, 3), round(width, 3), is_cut)
        x += width


def _list_round_times(segment: AxisSegment, step: int) -> Iterable[datetime]:
    first = -(-segment.start.timestamp() // step) * step
    for number in range(_MOST_TICKS + 2):
        at = datetime.fromtimestamp(first + number * step, UTC)
        if at > segment.end:
            return
        yield at
