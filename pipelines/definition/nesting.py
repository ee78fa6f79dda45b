"""Nesting of steps in groups and parallel blocks, flattened into one list."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

MAX_DEPTH = 4
GROUP, PARALLEL = "GROUP", "PARALLEL"
DocumentPath = tuple[str | int, ...]


@dataclass(frozen=True)
class NestedGroup:
    """A step group or a parallel; `position` is its first step's, `parent` an index among the groups."""

    kind: str
    body: Mapping[str, Any]
    path: DocumentPath
    parent: int | None
    position: int

    @property
    def identifier(self) -> str:
        return str(self.body.get("identifier", ""))


@dataclass(frozen=True)
class NestedStep:
    """A step as written, its path, and its surrounding groups, outermost first."""

    step: Mapping[str, Any]
    path: DocumentPath
    groups: tuple[int, ...] = ()

    @property
    def identifier(self) -> str:
        return str(self.step["identifier"])


@dataclass
class NestedSteps:
    """The steps of a list in order, and their groups."""

    steps: list[NestedStep] = field(default_factory=list)
    groups: list[NestedGroup] = field(default_factory=list)

    def is_parallel(self, step: NestedStep, other: NestedStep) -> bool:
        """Return whether two steps are in different branches of a parallel block."""
        if step is other:
            return False
        shared = [a for a, b in zip(step.groups, other.groups, strict=False) if a == b]
        return bool(shared) and self.groups[shared[-1]].kind == PARALLEL

    def iterate_earlier(self, at: int) -> Iterator[NestedStep]:
        """Yield the steps that have ended when the step at a position begins."""
        leaf = self.steps[at]
        return (step for step in islice(self.steps, at) if not self.is_parallel(step, leaf))

    def list_group_bodies(self, leaf: NestedStep) -> list[Mapping[str, Any]]:
        """Return the definitions of the groups around a step, innermost first."""
        return [self.groups[index].body for index in reversed(leaf.groups)]

    def list_branches(self, parallel: int) -> list[list[NestedStep]]:
        """Return the steps of each branch of a parallel block."""
        depth = len(list(self._list_ancestors(parallel)))
        branches: dict[Any, list[NestedStep]] = {}
        for leaf in self.steps:
            if parallel in leaf.groups:
                inner = leaf.groups[depth + 1] if len(leaf.groups) > depth + 1 else ("step", leaf.identifier)
                branches.setdefault(inner, []).append(leaf)
        return list(branches.values())

    def concatenate(self, other: "NestedSteps") -> "NestedSteps":
        """Return the steps of this list followed by those of another."""
        steps, groups = len(self.steps), len(self.groups)
        leaves = [replace(step, groups=tuple(at + groups for at in step.groups)) for step in other.steps]
        later = [
            replace(
                group,
                parent=None if group.parent is None else group.parent + groups,
                position=group.position + steps,
            )
            for group in other.groups
        ]
        return NestedSteps([*self.steps, *leaves], [*self.groups, *later])

    def list_too_deep(self) -> list[NestedGroup]:
        """Return the groups that are nested too deep."""
        return [
            group
            for index, group in enumerate(self.groups)
            if len(list(self._list_ancestors(index))) >= MAX_DEPTH
        ]

    def _list_ancestors(self, index: int) -> Iterator[int]:
        parent = self.groups[index].parent
        while parent is not None:
            yield parent
            parent = self.groups[parent].parent


def flatten_steps(entries: Sequence[Mapping[str, Any]], place: DocumentPath) -> NestedSteps:
    """Flatten a list of steps at `path`."""
    nested = NestedSteps()
    _add_entries(nested, entries, place, ())
    return nested


def _add_entries(
    nested: NestedSteps, entries: Sequence[Mapping[str, Any]], place: DocumentPath, around: tuple[int, ...]
) -> None:
    for number, entry in enumerate(entries):
        entry_path = (*place, number)
        if "step" in entry:
            nested.steps.append(NestedStep(entry["step"], (*entry_path, "step"), around))
        elif "parallel" in entry:
            _add_group(nested, PARALLEL, {}, entry["parallel"], (*entry_path, "parallel"), around)
        else:
            group = entry["stepGroup"]
            _add_group(nested, GROUP, group, group["steps"], (*entry_path, "stepGroup"), around)


def _add_group(
    nested: NestedSteps,
    kind: str,
    body: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    place: DocumentPath,
    around: tuple[int, ...],
) -> None:
    parent = around[-1] if around else None
    nested.groups.append(NestedGroup(kind, body, place, parent, len(nested.steps)))
    inside = (*place, "steps") if kind == GROUP else place
    _add_entries(nested, entries, inside, (*around, len(nested.groups) - 1))
