"""Line-by-line difference of two texts, in bounded time."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import yaml

# Steps of one comparison, well below a second of a core. Regions that need more are shown as replaced.
_MOST_STEPS = 5_000_000
_CONTEXT_LINES = 3


@dataclass(frozen=True)
class DiffLine:
    """Line of a diff: `sign` is "+", "-" or " "; a number (from 1) is None on the side without the line."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True)
class TextDiff:
    """Hunks of lines, each with up to three unchanged lines of context."""

    hunks: tuple[tuple[DiffLine, ...], ...]
    added: int
    removed: int

    @property
    def unified(self) -> str:
        """Return the hunks as a unified diff without file names."""
        return "\n".join(
            part for hunk in self.hunks for part in (_format_hunk_header(hunk), *map(_format_line, hunk))
        )


# Lines start:end of the old text that are replaced by lines new_start:new_end of the new one.
Region = tuple[int, int, int, int]


def compare_texts(old: str, new: str) -> TextDiff:
    """Compare two texts."""
    before, after = _split_lines(old), _split_lines(new)
    changes = _compute_changes(before, after)
    hunks = tuple(tuple(_build_hunk(group, before, after)) for group in _group_changes(changes))
    lines = [line for hunk in hunks for line in hunk]
    return TextDiff(hunks, sum(line.sign == "+" for line in lines), sum(line.sign == "-" for line in lines))


def _split_lines(text: str) -> list[str]:
    # A text that ends with a line end has no empty line after it.
    return text.removesuffix("\n").split("\n") if text else []


def _compute_changes(before: Sequence[str], after: Sequence[str]) -> list[Region]:
    """Return the regions that differ, in their order, with at least one equal line between two of them."""
    changes: list[Region] = []
    regions, steps = [(0, len(before), 0, len(after))], _MOST_STEPS
    while regions:
        start, end, new_start, new_end = region = _strip_common(before, after, regions.pop())
        old, new = before[start:end], after[new_start:new_end]
        steps -= len(old) + len(new)
        if not old or not new or steps < 0:
            changes += [region] if old or new else []
        elif (needed := _count_matching_steps(old, new)) <= steps:
            steps -= needed
            changes += (_move(change, start, new_start) for change in _match_lines(old, new))
        elif anchors := _find_anchors(old, new):
            # The last region first, as `pop` takes the last one.
            regions += (_move(part, start, new_start) for part in reversed(_split_at(anchors, old, new)))
        else:
            changes.append(region)
    return changes


def _strip_common(before: Sequence[str], after: Sequence[str], region: Region) -> Region:
    """Return the region without the equal lines at its beginning and at its end."""
    start, end, new_start, new_end = region
    while start < end and new_start < new_end and before[start] == after[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and before[end - 1] == after[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return start, end, new_start, new_end


def _count_matching_steps(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the most steps of `_match_lines`.

    Each search for the longest match takes every line of `old` with all its equals in `new`. A search is
    repeated beside each match, at most as deep as there are lines to match.
    """
    counts, new_counts = Counter(old), Counter(new)
    pairs = sum(count * new_counts[line] for line, count in counts.items())
    return (len(old) + pairs) * (1 + (counts & new_counts).total())


def _match_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Region]:
    for tag, *region in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            start, end, new_start, new_end = region
            yield start, end, new_start, new_end


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest ascending row of positions of lines that occur once in each text (patience diff)."""
    counts, new_counts = Counter(old), Counter(new)
    positions = {line: at for at, line in enumerate(new) if new_counts[line] == counts[line] == 1}
    ends: list[int] = []
    # Each chain is its last pair of positions with the chain before it.
    chains: list[Any] = []
    for at, line in enumerate(old):
        if (new_at := positions.get(line)) is not None:
            length = bisect_left(ends, new_at)
            ends[length : length + 1] = [new_at]
            chains[length : length + 1] = [((at, new_at), chains[length - 1] if length else None)]
    anchors, chain = [], chains[-1] if chains else None
    while chain:
        pair, chain = chain
        anchors.append(pair)
    return anchors[::-1]


def _split_at(anchors: Sequence[tuple[int, int]], old: Sequence[str], new: Sequence[str]) -> list[Region]:
    starts = [(0, 0), *((at + 1, new_at + 1) for at, new_at in anchors)]
    ends = [*anchors, (len(old), len(new))]
    return [(a, b, c, d) for (a, c), (b, d) in zip(starts, ends, strict=True)]


def _move(region: Region, lines: int, new_lines: int) -> Region:
    start, end, new_start, new_end = region
    return start + lines, end + lines, new_start + new_lines, new_end + new_lines


def _group_changes(changes: Sequence[Region]) -> Iterator[list[Region]]:
    """Yield groups of changes whose context lines would overlap."""
    group: list[Region] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _build_hunk(group: Sequence[Region], before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    old, _, new, _ = group[0]
    lead = min(_CONTEXT_LINES, old)
    old, new = old - lead, new - lead
    for start, end, new_start, new_end in group:
        yield from _build_context(before[old:start], old, new)
        yield from (DiffLine("-", before[at], at + 1) for at in range(start, end))
        yield from (DiffLine("+", after[at], None, at + 1) for at in range(new_start, new_end))
        old, new = end, new_end
    yield from _build_context(before[old : old + _CONTEXT_LINES], old, new)


def _build_context(lines: Sequence[str], old: int, new: int) -> Iterator[DiffLine]:
    return (DiffLine(" ", text, old + at + 1, new + at + 1) for at, text in enumerate(lines))


def _format_hunk_header(hunk: Sequence[DiffLine]) -> str:
    old = [line.old for line in hunk if line.old]
    new = [line.new for line in hunk if line.new]
    sides = (f"{lines[0] if lines else 0},{len(lines)}" for lines in (old, new))
    return "@@ -{} +{} @@".format(*sides)


def _format_line(line: DiffLine) -> str:
    return f"{line.sign}{line.text}"


def diff_values(stored: dict[str, Any], entered: dict[str, Any]) -> TextDiff:
    """Return what saving the entered values would change in the stored ones, as YAML."""
    return compare_texts(_render_yaml(stored), _render_yaml(entered))


def _render_yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=False)
