"""Expressions resolved only when a step begins, such as outputs of earlier steps."""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steps.expressions import IsDeferred, find_paths, resolve_expressions
from steps.kinds.registry import StepKind

_STEP_PREFIXES = (("execution", "steps"), ("steps",))
_DEFERRED_ROOTS = ("artifact", "execution", "primary", "provisioner", "steps")
# Of a dynamic infrastructure known once its provisioner's steps have ended.
LOCATION_PATHS = ("infra.region", "infra.cluster")
# How many outputs a sentence lists.
_MOST_LISTED_OUTPUTS = 12
EarlierOutputs = Mapping[str, Collection[str] | None]
"""Steps by their identifiers, with all outputs that each can have; None where nobody can say yet."""


@dataclass(frozen=True)
class ExpressionProblem:
    """An expression that can never come to anything: where it stands in the spec, and a sentence."""

    location: tuple[str | int, ...]
    message: str


def is_deferred(path: str) -> bool:
    """Whether a path is known only once a step begins."""
    return path.partition(".")[0] in _DEFERRED_ROOTS


def build_deferred_check(values: Mapping[str, Any]) -> IsDeferred:
    """As `is_late`, for a stage with these values: without a region and a cluster, those come late too."""
    unplaced = [path for path in LOCATION_PATHS if path.partition(".")[2] not in values.get("infra", {})]
    return lambda path: is_deferred(path) or path in unplaced


def has_deferred(kind: StepKind, spec: Mapping[str, Any], later: IsDeferred = is_deferred) -> bool:
    """Whether a spec, apart from manifests and scripts, names what is only known later."""
    return any(later(path) for _, path in find_paths(_select_resolvable(kind, spec)))


def resolve_spec(
    kind: StepKind,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    later: IsDeferred = lambda path: False,
) -> dict[str, Any]:
    """The fields of a spec that are filled in, filled in; scripts stay as they are, manifests are left out.

    Raises `BadExpressionError`.
    """
    scripts = {name: spec[name] for name in kind.scripts if name in spec}
    return {**resolve_expressions(_select_resolvable(kind, spec), values, later=later), **scripts}


def list_paths_at(kind: StepKind, spec: Mapping[str, Any], where: tuple[str | int, ...]) -> list[str]:
    """The paths that the expressions at one place of a spec name."""
    return [path for place, path in find_paths(_select_resolvable(kind, spec)) if place == where]


def find_step_problems(
    spec: Mapping[str, Any], earlier: EarlierOutputs, others: Sequence[str]
) -> Iterator[ExpressionProblem]:
    """What is wrong with the steps that a spec names: `earlier` ones are over by then, `others` are not."""
    for where, path in find_paths(spec):
        named = _parse_step_path(path)
        if named is not None and (message := _describe_problem(path, named, earlier, others)):
            yield ExpressionProblem(where, message)


def _select_resolvable(kind: StepKind, spec: Mapping[str, Any]) -> dict[str, Any]:
    left_out = {*kind.manifests, *kind.scripts}
    return {name: value for name, value in spec.items() if name not in left_out}


def _parse_step_path(path: str) -> list[str] | None:
    """What follows `steps` in a path that names a step: its identifier, and what is asked of it."""
    parts = path.split(".")
    for before in _STEP_PREFIXES:
        if tuple(parts[: len(before)]) == before:
            return parts[len(before) :]
    return None


def _describe_problem(path: str, named: list[str], earlier: EarlierOutputs, others: Sequence[str]) -> str:
    if len(named) < 3 or named[1] != "output":
        return f"<+{path}> says too little: write <+steps.identifier.output.name>."
    step, output = named[0], ".".join(named[2:])
    if step in earlier:
        outputs = earlier[step]
        return (
            ""
            if outputs is None or _is_known_output(output, outputs)
            else _describe_unknown_output(path, step, output, outputs)
        )
    if step in others:
        return f"<+{path}> is not known here: step {step} is not over when this step begins."
    near = difflib.get_close_matches(step, earlier, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"<+{path}> is not known here: there is no step {step} before this one.{hint}"


def _is_known_output(output: str, outputs: Collection[str]) -> bool:
    """Whether a step can have an output, or one that holds it, or some below it."""
    below = [one for one in outputs if one.startswith(f"{output.partition('.')[0]}.")]
    known = below or outputs
    return output in outputs or any(
        output.startswith(f"{one}.") or one.startswith(f"{output}.") for one in known
    )


def _describe_unknown_output(path: str, step: str, output: str, outputs: Collection[str]) -> str:
    said = f"<+{path}> is not known here: step {step} has no output {output}."
    if near := difflib.get_close_matches(output, sorted(outputs), n=1, cutoff=0.5):
        return f"{said} Did you mean <+{path.removesuffix(output)}{near[0]}>?"
    shown = sorted(outputs)[:_MOST_LISTED_OUTPUTS]
    return (
        f"{said} It has {', '.join(shown)}{' and more' if len(outputs) > _MOST_LISTED_OUTPUTS else ''}."
        if shown
        else said
    )
