"""Line-by-line difference of two texts, in bounded time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import yaml

# Matching costs up to the square of the lines that differ; beyond this they are shown as replaced.
MOST_COMPARED_LINES = 3000
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


DiffOperation = tuple[str, int, int, int, int]


def compare_texts(old: str, new: str) -> TextDiff:
    """Compare two texts."""
    before, after = _split_lines(old), _split_lines(new)
    operations = [operation for operation in _compute_operations(before, after) if operation[0] != "equal"]
    hunks = tuple(tuple(_build_hunk(group, before, after)) for group in _group_operations(operations))
    lines = [line for hunk in hunks for line in hunk]
    return TextDiff(hunks, sum(line.sign == "+" for line in lines), sum(line.sign == "-" for line in lines))


def _split_lines(text: str) -> list[str]:
    # A text that ends with a line end has no empty line after it.
    return text.removesuffix("\n").split("\n") if text else []


def _compute_operations(before: Sequence[str], after: Sequence[str]) -> list[DiffOperation]:
    head = _count_common(before, after)
    tail = _count_common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(old), len(new)) > MOST_COMPARED_LINES:
        operations: Sequence[DiffOperation] = [("replace", 0, len(old), 0, len(new))]
    else:
        operations = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    return [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in operations]


def _count_common(first: Sequence[str], second: Sequence[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


def _group_operations(operations: Sequence[DiffOperation]) -> Iterator[list[DiffOperation]]:
    """Yield groups of changes whose context lines would overlap."""
    group: list[DiffOperation] = []
    for operation in operations:
        if group and operation[1] - group[-1][2] > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(operation)
    if group:
        yield group


def _build_hunk(
    group: Sequence[DiffOperation], before: Sequence[str], after: Sequence[str]
) -> Iterator[DiffLine]:
    old, new = group[0][1], group[0][3]
    lead = min(_CONTEXT_LINES, old)
    old, new = old - lead, new - lead
    for _, start, end, new_start, new_end in group:
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
