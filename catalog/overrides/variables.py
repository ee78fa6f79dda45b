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
    """One place that sets variables; `owner` is what people call it."""

    kind: str
    owner: str
    values: Mapping[str, VariableValue]


@dataclass(frozen=True)
class EffectiveVariable:
    """One name, what each level says of it (None where it is silent), and the value that counts."""

    name: str
    values: tuple[VariableValue | None, ...]
    winner: VariableLevel | None
    is_required: bool

    @property
    def value(self) -> VariableValue | None:
        return self.winner.values[self.name] if self.winner else None

    @property
    def is_missing(self) -> bool:
        """Whether a deployment would be refused because this has no value."""
        return self.is_required and self.value in (None, "")


class VariableOwner(Protocol):
    """A service or an environment, as far as variables go."""

    name: str
    variables: Any


def build_levels(
    service: VariableOwner, environment: VariableOwner, override: Mapping[str, VariableValue]
) -> tuple[VariableLevel, ...]:
    """What may set a variable of a service in an environment, the weakest first."""
    return (
        VariableLevel(SERVICE, service.name, service.variables),
        VariableLevel(ENVIRONMENT, environment.name, environment.variables),
        VariableLevel(OVERRIDE, f"{service.name} in {environment.name}", override),
    )


def merge_values(*levels: Mapping[str, VariableValue]) -> dict[str, VariableValue]:
    """The values that count, of levels given from the most general to the most specific."""
    found: dict[str, VariableValue] = {}
    for level in levels:
        found.update(level)
    return found


def resolve_variables(
    levels: Sequence[VariableLevel], required: Iterable[str] = ()
) -> list[EffectiveVariable]:
    """Every name that some level sets or that is required, in alphabetical order.

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
    """What expressions find under `serviceVariables` and `variables`: the values that count.

    `levels` are the service's, the environment's, and those of its overrides, the weakest first.
    `<+serviceVariables.x>` is the value of the strongest of them; `<+variables.x>` also knows the pipeline's,
    which any other level overrides.
    """
    return {
        "serviceVariables": merge_values(*levels),
        "variables": merge_values(pipeline, *levels),
    }
