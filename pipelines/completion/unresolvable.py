"""Expressions of a pipeline that can never come to anything, whatever a run is told."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.completion.deferred_expressions import Fault, is_late
from pipelines.definition.secret_places import hidden_inputs, hidden_problem
from steps.expression_names import DIGEST, FIXED
from steps.expressions import BadExpressionError, is_path, named_in, value_at
from steps.kinds.base import StepKind
from steps.kinds.outputs import known_within

# What a pipeline does not say: services, environments and what is laid over them have these.
_OPEN = ("env.variables", "service.variables", "serviceVariables", "variables", "secrets", "input")


class Nameable:
    """What every step of a pipeline can name, as far as its text tells."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.hidden = hidden_inputs(variables)
        self._known: dict[str, Any] = {}
        for path in (*FIXED, *DIGEST, *(f"pipeline.variables.{name}" for name in variables)):
            *before, last = path.split(".")
            inner = self._known
            for part in before:
                inner = inner.setdefault(part, {})
            inner[last] = ""

    def faults(self, kind: StepKind, spec: Mapping[str, Any]) -> Iterator[Fault]:
        """What a spec names in vain, apart from manifests, which know what their step has learned."""
        within = known_within(kind.type)
        filled = {name: value for name, value in spec.items() if name not in kind.manifests}
        for where, path in named_in(filled):
            if path.partition(".")[0] not in within and (message := self._problem(path)):
                yield Fault(where, message)

    def faults_of_condition(self, paths: Iterable[str]) -> Iterator[str]:
        """What a condition names in vain, as sentences."""
        return (
            message for path in paths if (message := hidden_problem(path, self.hidden) or self._problem(path))
        )

    def _problem(self, path: str) -> str:
        if not is_path(path) or is_late(path) or any(f"{path}.".startswith(f"{one}.") for one in _OPEN):
            return ""
        try:
            value_at(path, self._known)
        except BadExpressionError as bad:
            return bad.message
        return ""
