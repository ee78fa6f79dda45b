"""The difference between two texts, line by line, in time that does not depend on how odd they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

# Matching costs up to the square of the lines that differ; beyond this they are shown as replaced.
MOST_COMPARED = 3000
_AROUND = 3


@dataclass(frozen=True)
class DiffLine:
    """One line: `sign` is "+", "-" or " "; the numbers (from 1) are None on the side where it is not."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None


@dataclass(frozen=True)
class Diff:
    """Hunks of lines, each with up to three unchanged lines around what changed."""

    hunks: tuple[tuple[DiffLine, ...], ...]
    added: int
    removed: int

    @property
    def unified(self) -> str:
        """The hunks as a unified diff without file names."""
        return "\n".join(part for hunk in self.hunks for part in (_head(hunk), *map(_unified, hunk)))


Operation = tuple[str, int, int, int, int]


def diff(old: str, new: str) -> Diff:
    """Compare two texts."""
    before, after = _lines(old), _lines(new)
    operations = [one for one in _operations(before, after) if one[0] != "equal"]
    hunks = tuple(tuple(_hunk(group, before, after)) for group in _grouped(operations))
    lines = [line for hunk in hunks for line in hunk]
    return Diff(hunks, sum(line.sign == "+" for line in lines), sum(line.sign == "-" for line in lines))


def _lines(text: str) -> list[str]:
    # A text that ends with a line end has no empty line after it.
    return text.removesuffix("\n").split("\n") if text else []


def _operations(before: Sequence[str], after: Sequence[str]) -> list[Operation]:
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(old), len(new)) > MOST_COMPARED:
        found: Sequence[Operation] = [("replace", 0, len(old), 0, len(new))]
    else:
        found = list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    return [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in found]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _grouped(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Put together what is so near that the lines around it would meet."""
    group: list[Operation] = []
    for one in operations:
        if group and one[1] - group[-1][2] > 2 * _AROUND:
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _hunk(group: Sequence[Operation], before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    old, new = group[0][1], group[0][3]
    lead = min(_AROUND, old)
    old, new = old - lead, new - lead
    for _, start, end, new_start, new_end in group:
        yield from _same(before[old:start], old, new)
        yield from (DiffLine("-", before[at], at + 1) for at in range(start, end))
        yield from (DiffLine("+", after[at], None, at + 1) for at in range(new_start, new_end))
        old, new = end, new_end
    yield from _same(before[old : old + _AROUND], old, new)


def _same(lines: Sequence[str], old: int, new: int) -> Iterator[DiffLine]:
    return (DiffLine(" ", text, old + at + 1, new + at + 1) for at, text in enumerate(lines))


def _head(hunk: Sequence[DiffLine]) -> str:
    old = [line.old for line in hunk if line.old]
    new = [line.new for line in hunk if line.new]
    sides = (f"{lines[0] if lines else 0},{len(lines)}" for lines in (old, new))
    return "@@ -{} +{} @@".format(*sides)


def _unified(line: DiffLine) -> str:
    return f"{line.sign}{line.text}"
