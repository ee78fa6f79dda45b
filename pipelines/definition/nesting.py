"""Steps inside groups and beside each other: the list of a stage as leaves, in the order of the text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

MOST_DEPTH = 4
GROUP, PARALLEL = "GROUP", "PARALLEL"
Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Group:
    """A step group or a parallel; `position` is its first step's, `parent` an index among the groups."""

    kind: str
    said: Mapping[str, Any]
    place: Path
    parent: int | None
    position: int

    @property
    def identifier(self) -> str:
        return str(self.said.get("identifier", ""))


@dataclass(frozen=True)
class Leaf:
    """One step as it is written, its place, and the groups around it, the outermost first."""

    step: Mapping[str, Any]
    place: Path
    around: tuple[int, ...] = ()

    @property
    def identifier(self) -> str:
        return str(self.step["identifier"])


@dataclass
class Nested:
    """The steps of a list, in order, and the groups that hold them."""

    leaves: list[Leaf] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    def is_beside(self, one: Leaf, other: Leaf) -> bool:
        """Whether two steps are in different branches of one parallel: neither waits for the other."""
        if one is other:
            return False
        shared = [a for a, b in zip(one.around, other.around, strict=False) if a == b]
        return bool(shared) and self.groups[shared[-1]].kind == PARALLEL

    def before(self, leaf: Leaf) -> list[Leaf]:
        """The steps that are over when this one begins."""
        earlier = self.leaves[: self.leaves.index(leaf)]
        return [one for one in earlier if not self.is_beside(one, leaf)]

    def said_around(self, leaf: Leaf) -> list[Mapping[str, Any]]:
        """What the groups around a step say, the innermost first."""
        return [self.groups[index].said for index in reversed(leaf.around)]

    def branches(self, parallel: int) -> list[list[Leaf]]:
        """The steps of each branch of a parallel."""
        depth = len(list(self._above(parallel)))
        found: dict[Any, list[Leaf]] = {}
        for leaf in self.leaves:
            if parallel in leaf.around:
                inner = leaf.around[depth + 1] if len(leaf.around) > depth + 1 else ("step", leaf.identifier)
                found.setdefault(inner, []).append(leaf)
        return list(found.values())

    def followed_by(self, other: "Nested") -> "Nested":
        """The steps of this list and then those of another one."""
        steps, groups = len(self.leaves), len(self.groups)
        leaves = [replace(one, around=tuple(at + groups for at in one.around)) for one in other.leaves]
        later = [
            replace(
                one,
                parent=None if one.parent is None else one.parent + groups,
                position=one.position + steps,
            )
            for one in other.groups
        ]
        return Nested([*self.leaves, *leaves], [*self.groups, *later])

    def too_deep(self) -> list[Group]:
        """The groups that lie deeper than they may."""
        return [one for index, one in enumerate(self.groups) if len(list(self._above(index))) >= MOST_DEPTH]

    def _above(self, index: int) -> Iterator[int]:
        parent = self.groups[index].parent
        while parent is not None:
            yield parent
            parent = self.groups[parent].parent


def flattened(entries: Sequence[Mapping[str, Any]], place: Path) -> Nested:
    """The steps of a list such as `steps`, which lies at `place`."""
    found = Nested()
    _add(found, entries, place, ())
    return found


def _add(found: Nested, entries: Sequence[Mapping[str, Any]], place: Path, around: tuple[int, ...]) -> None:
    for number, entry in enumerate(entries):
        here = (*place, number)
        if "step" in entry:
            found.leaves.append(Leaf(entry["step"], (*here, "step"), around))
        elif "parallel" in entry:
            _add_group(found, PARALLEL, {}, entry["parallel"], (*here, "parallel"), around)
        else:
            group = entry["stepGroup"]
            _add_group(found, GROUP, group, group["steps"], (*here, "stepGroup"), around)


def _add_group(
    found: Nested,
    kind: str,
    said: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    place: Path,
    around: tuple[int, ...],
) -> None:
    parent = around[-1] if around else None
    found.groups.append(Group(kind, said, place, parent, len(found.leaves)))
    inside = (*place, "steps") if kind == GROUP else place
    _add(found, entries, inside, (*around, len(found.groups) - 1))
