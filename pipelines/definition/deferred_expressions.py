"""Expressions resolved only when a step begins, such as outputs of earlier steps."""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.definition.nesting import NestedSteps
from steps.expressions import IsDeferred, find_paths, resolve_expressions
from steps.kinds.registry import StepKind

_STEP_PREFIXES = (("execution", "steps"), ("steps",))
_DEFERRED_ROOTS = ("artifact", "execution", "primary", "provisioner", "steps")
# Paths of a dynamic infrastructure, resolved after its provisioner steps.
LOCATION_PATHS = ("infra.region", "infra.cluster")
# Limit of the outputs that a message lists.
_MOST_LISTED_OUTPUTS = 12
EarlierOutputs = Mapping[str, Collection[str] | None]
"""Possible outputs by step identifier; None if they are unknown before the run."""


class StepOutputs:
    """Outputs of the steps of a stage and of the stages before it.

    A pipeline may have thousands of steps, so that no step gets a list of those before it.
    """

    def __init__(
        self, steps: NestedSteps, outputs: Mapping[str, Collection[str] | None], before: EarlierOutputs
    ) -> None:
        self.steps, self.outputs, self.before = steps, outputs, before
        self._positions: dict[str, int] = {}
        for position, step in enumerate(steps.steps):
            self._positions.setdefault(step.identifier, position)

    def has_ended(self, identifier: str, at: int) -> bool:
        """Return whether a step of the stage has ended when the step at a position begins."""
        position = self._positions.get(identifier, at)
        return position < at and not self.steps.is_parallel(self.steps.steps[position], self.steps.steps[at])


class EarlierSteps(EarlierOutputs):
    """Outputs of the steps that have ended when the step at a position begins, by identifier."""

    def __init__(self, outputs: StepOutputs, at: int) -> None:
        self._outputs, self._at = outputs, at

    def __getitem__(self, identifier: str) -> Collection[str] | None:
        if self._outputs.has_ended(identifier, self._at):
            return self._outputs.outputs[identifier]
        return self._outputs.before[identifier]

    def __iter__(self) -> Iterator[str]:
        own = (name for name in self._outputs.outputs if self._outputs.has_ended(name, self._at))
        return iter({**self._outputs.before, **dict.fromkeys(own)})

    def __len__(self) -> int:
        return len(list(self))


@dataclass(frozen=True)
class ExpressionProblem:
    """An unresolvable expression: its location in the spec, and a message."""

    location: tuple[str | int, ...]
    message: str


def is_deferred(path: str) -> bool:
    """Return whether a path is resolved only when a step begins."""
    return path.partition(".")[0] in _DEFERRED_ROOTS


def build_deferred_check(values: Mapping[str, Any]) -> IsDeferred:
    """Build the `is_deferred` check of a stage; without region and cluster these are deferred too."""
    unplaced = [path for path in LOCATION_PATHS if path.partition(".")[2] not in values.get("infra", {})]
    return lambda path: is_deferred(path) or path in unplaced


def has_deferred(kind: StepKind, spec: Mapping[str, Any], is_deferred: IsDeferred = is_deferred) -> bool:
    """Return whether a spec, apart from manifests and scripts, has deferred expressions."""
    return any(is_deferred(path) for _, path in find_paths(_select_resolvable(kind, spec)))


def resolve_spec(
    kind: StepKind,
    spec: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    is_deferred: IsDeferred = lambda path: False,
) -> dict[str, Any]:
    """Resolve the expressions in the fields of a spec; scripts stay as they are, manifests are left out.

    Raises `BadExpressionError`.
    """
    scripts = {name: spec[name] for name in kind.scripts if name in spec}
    return {**resolve_expressions(_select_resolvable(kind, spec), values, is_deferred=is_deferred), **scripts}


def list_paths_at(kind: StepKind, spec: Mapping[str, Any], where: tuple[str | int, ...]) -> list[str]:
    """Return the paths of the expressions at one location of a spec."""
    return [path for place, path in find_paths(_select_resolvable(kind, spec)) if place == where]


def find_step_problems(
    spec: Mapping[str, Any], earlier: EarlierOutputs, other_steps: Sequence[str]
) -> Iterator[ExpressionProblem]:
    """Yield invalid step references of a spec; `earlier` steps have ended, `other_steps` have not."""
    for where, path in find_paths(spec):
        named = parse_step_path(path)
        if named is not None and (message := _describe_problem(path, named, earlier, other_steps)):
            yield ExpressionProblem(where, message)


def _select_resolvable(kind: StepKind, spec: Mapping[str, Any]) -> dict[str, Any]:
    excluded_names = {*kind.manifests, *kind.scripts}
    return {name: value for name, value in spec.items() if name not in excluded_names}


def parse_step_path(path: str) -> list[str] | None:
    """Return the step identifier and the rest of a `steps` path; None for another path."""
    parts = path.split(".")
    for before in _STEP_PREFIXES:
        if tuple(parts[: len(before)]) == before:
            return parts[len(before) :]
    return None


def _describe_problem(
    path: str, named: list[str], earlier: EarlierOutputs, other_steps: Sequence[str]
) -> str:
    if len(named) < 3 or named[1] != "output":
        return f"<+{path}> is incomplete: use <+steps.identifier.output.name>."
    step, output = named[0], ".".join(named[2:])
    if step in earlier:
        outputs = earlier[step]
        return (
            ""
            if outputs is None or _is_known_output(output, outputs)
            else _describe_unknown_output(path, step, output, outputs)
        )
    if step in other_steps:
        return f"<+{path}> cannot be resolved: step {step} does not end before this step starts."
    near = difflib.get_close_matches(step, earlier, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"<+{path}> cannot be resolved: no step {step} runs before this one.{hint}"


def _is_known_output(output: str, outputs: Collection[str]) -> bool:
    """Return whether a step can produce an output, a parent of it, or one below it."""
    below = [name for name in outputs if name.startswith(f"{output.partition('.')[0]}.")]
    candidates = below or outputs
    return output in outputs or any(
        output.startswith(f"{name}.") or name.startswith(f"{output}.") for name in candidates
    )


def _describe_unknown_output(path: str, step: str, output: str, outputs: Collection[str]) -> str:
    message = f"<+{path}> cannot be resolved: step {step} has no output {output}."
    if near := difflib.get_close_matches(output, sorted(outputs), n=1, cutoff=0.5):
        return f"{message} Did you mean <+{path.removesuffix(output)}{near[0]}>?"
    examples = sorted(outputs)[:_MOST_LISTED_OUTPUTS]
    return (
        f"{message} It has {', '.join(examples)}{' and more' if len(outputs) > _MOST_LISTED_OUTPUTS else ''}."
        if examples
        else message
    )
