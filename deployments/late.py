"""Expressions of a step that name what is only known when the step begins, such as outputs of other steps."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.expressions import Later, named_in, resolve
from deployments.steps.base import StepKind

_STEPS = (("execution", "steps"), ("steps",))
_LATE = ("artifact", "execution", "primary", "steps")


@dataclass(frozen=True)
class Fault:
    """An expression that can never come to anything: where it stands in the spec, and a sentence."""

    where: tuple[str | int, ...]
    message: str


def is_late(path: str) -> bool:
    """Whether a path is known only once a step begins."""
    return path.partition(".")[0] in _LATE


def has_late(kind: StepKind, spec: Mapping[str, Any]) -> bool:
    """Whether a spec, apart from manifests and scripts, names what is only known later."""
    return any(is_late(path) for _, path in named_in(_fillable(kind, spec)))


def filled_in(
    kind: StepKind,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    later: Later = lambda path: False,
) -> dict[str, Any]:
    """The fields of a spec that are filled in, filled in; scripts stay as they are, manifests are left out.

    Raises `BadExpressionError`.
    """
    scripts = {name: spec[name] for name in kind.scripts if name in spec}
    return {**resolve(_fillable(kind, spec), values, later=later), **scripts}


def named_where(kind: StepKind, spec: Mapping[str, Any], where: tuple[str | int, ...]) -> list[str]:
    """The paths that the expressions at one place of a spec name."""
    return [path for place, path in named_in(_fillable(kind, spec)) if place == where]


def faults(spec: Mapping[str, Any], earlier: Sequence[str], others: Sequence[str]) -> Iterator[Fault]:
    """What is wrong with the steps that a spec names: `earlier` ones are over by then, `others` are not."""
    for where, path in named_in(spec):
        named = _step_of(path)
        if named is not None and (message := _problem(path, named, earlier, others)):
            yield Fault(where, message)


def _fillable(kind: StepKind, spec: Mapping[str, Any]) -> dict[str, Any]:
    left_out = {*kind.manifests, *kind.scripts}
    return {name: value for name, value in spec.items() if name not in left_out}


def _step_of(path: str) -> list[str] | None:
    """What follows `steps` in a path that names a step: its identifier, and what is asked of it."""
    parts = path.split(".")
    for before in _STEPS:
        if tuple(parts[: len(before)]) == before:
            return parts[len(before) :]
    return None


def _problem(path: str, named: list[str], earlier: Sequence[str], others: Sequence[str]) -> str:
    if len(named) < 3 or named[1] != "output":
        return f"<+{path}> says too little: write <+steps.identifier.output.name>."
    if named[0] in earlier:
        return ""
    if named[0] in others:
        return f"<+{path}> is not known here: step {named[0]} is not over when this step begins."
    near = difflib.get_close_matches(named[0], earlier, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"<+{path}> is not known here: there is no step {named[0]} before this one.{hint}"
