"""Which value a variable has: the levels that may set it, their order, and who wins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# From the most general to the most specific: a later level overrides an earlier one.
PIPELINE = "pipeline"
SERVICE = "service"
ENVIRONMENT = "environment"
OVERRIDE = "override"
INFRASTRUCTURE = "infrastructure"

Value = str | int | float | bool


@dataclass(frozen=True)
class Level:
    """One place that sets variables; `owner` is what people call it."""

    kind: str
    owner: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Variable:
    """One name, what each level says of it (None where it is silent), and the value that counts."""

    name: str
    values: tuple[Value | None, ...]
    winner: Level | None
    is_required: bool

    @property
    def value(self) -> Value | None:
        return self.winner.values[self.name] if self.winner else None

    @property
    def is_missing(self) -> bool:
        """Whether a deployment would be refused because this has no value."""
        return self.is_required and self.value in (None, "")


class Named(Protocol):
    """A service or an environment, as far as variables go."""

    name: str
    variables: Any


def levels_of(service: Named, environment: Named, override: Mapping[str, Value]) -> tuple[Level, ...]:
    """What may set a variable of a service in an environment, the weakest first."""
    return (
        Level(SERVICE, service.name, service.variables),
        Level(ENVIRONMENT, environment.name, environment.variables),
        Level(OVERRIDE, f"{service.name} in {environment.name}", override),
    )


def effective(*levels: Mapping[str, Value]) -> dict[str, Value]:
    """The values that count, of levels given from the most general to the most specific."""
    found: dict[str, Value] = {}
    for level in levels:
        found.update(level)
    return found


def resolved(levels: Sequence[Level], required: Iterable[str] = ()) -> list[Variable]:
    """Every name that some level sets or that is required, in alphabetical order.

    `levels` are given from the most general to the most specific.
    """
    needed = set(required)
    names = sorted({name for level in levels for name in level.values} | needed)
    return [
        Variable(
            name=name,
            values=tuple(level.values.get(name) for level in levels),
            winner=next((level for level in reversed(levels) if name in level.values), None),
            is_required=name in needed,
        )
        for name in names
    ]


def expressions(pipeline: Mapping[str, Value], *levels: Mapping[str, Value]) -> dict[str, Any]:
    """What expressions find under `serviceVariables` and `variables`: the values that count.

    `levels` are the service's, the environment's, and those of its overrides, the weakest first.
    `<+serviceVariables.x>` is the value of the strongest of them; `<+variables.x>` also knows the pipeline's,
    which any other level overrides.
    """
    return {
        "serviceVariables": effective(*levels),
        "variables": effective(pipeline, *levels),
    }
