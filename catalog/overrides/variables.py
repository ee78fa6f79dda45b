"""Variables of a service: the levels that set them, precedence, and effective values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# From the most general to the most specific: a later level overrides an earlier one.
PIPELINE = "pipeline"
SERVICE = "service"
ENVIRONMENT = "environment"
OVERRIDE = "override"
INFRASTRUCTURE = "infrastructure"

VariableValue = str | int | float | bool


@dataclass(frozen=True)
class VariableLevel:
    """A level that sets variables; `owner` is its display name."""

    kind: str
    owner: str
    values: Mapping[str, VariableValue]


@dataclass(frozen=True)
class EffectiveVariable:
    """A variable: its value at each level (None if not set), and its effective value."""

    name: str
    values: tuple[VariableValue | None, ...]
    winner: VariableLevel | None
    is_required: bool

    @property
    def value(self) -> VariableValue | None:
        return self.winner.values[self.name] if self.winner else None

    @property
    def is_missing(self) -> bool:
        """Return whether a deployment would be rejected because this variable has no value."""
        return self.is_required and self.value in (None, "")


class VariableOwner(Protocol):
    """Protocol of services and environments as owners of variables."""

    name: str
    variables: Any


def build_levels(
    service: VariableOwner, environment: VariableOwner, override: Mapping[str, VariableValue]
) -> tuple[VariableLevel, ...]:
    """Build the levels of the variables of a service in an environment, weakest first."""
    return (
        VariableLevel(SERVICE, service.name, service.variables),
        VariableLevel(ENVIRONMENT, environment.name, environment.variables),
        VariableLevel(OVERRIDE, f"{service.name} in {environment.name}", override),
    )


def merge_values(*levels: Mapping[str, VariableValue]) -> dict[str, VariableValue]:
    """Merge values given from the most general level to the most specific."""
    values: dict[str, VariableValue] = {}
    for level in levels:
        values.update(level)
    return values


def resolve_variables(
    levels: Sequence[VariableLevel], required: Iterable[str] = ()
) -> list[EffectiveVariable]:
    """Return every variable that a level sets or that is required, in alphabetical order.

    `levels` are given from the most general to the most specific.
    """
    needed = set(required)
    names = sorted({name for level in levels for name in level.values} | needed)
    return [
        EffectiveVariable(
            name=name,
            values=tuple(level.values.get(name) for level in levels),
            winner=next((level for level in reversed(levels) if name in level.values), None),
            is_required=name in needed,
        )
        for name in names
    ]


def build_variable_expressions(
    pipeline: Mapping[str, VariableValue], *levels: Mapping[str, VariableValue]
) -> dict[str, Any]:
    """Build the values of `serviceVariables` and `variables` for expressions.

    `levels` are the service's, the environment's and the overrides', weakest first. `<+serviceVariables.x>`
    is the strongest of them; `<+variables.x>` also covers the pipeline's variables, which any other level
    overrides.
    """
    return {
        "serviceVariables": merge_values(*levels),
        "variables": merge_values(pipeline, *levels),
    }
