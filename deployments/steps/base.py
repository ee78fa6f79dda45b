"""What a step is: a function from its spec to a plan of actions in titled units."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from deployments.actions.base import Action


@dataclass(frozen=True)
class Unit:
    """A titled group of actions in a step's log."""

    title: str
    actions: tuple[Action, ...]


def unit(title: str, *actions: Action) -> Unit:
    """Group actions under a title."""
    return Unit(title, actions)


Plan = Iterator[Unit]
PlanOf = Callable[[Any], Plan]


class BadStepError(ValueError):
    """A step in a pipeline has a type or a spec that does not exist."""


@dataclass(frozen=True)
class StepKind:
    """A kind of step that a pipeline can name."""

    type: str
    title: str
    spec: Any
    plan_of: PlanOf
    undone_by: str
    undoes: str
    timeout_minutes: int

    def spec_from(self, values: Mapping[str, Any]) -> Any:
        """The typed spec; raises `BadStepError` naming an unknown or ill-typed field."""
        fields = self.spec.__dataclass_fields__
        for name, value in values.items():
            if name not in fields:
                known = ", ".join(fields) or "no fields at all"
                raise BadStepError(f"{self.type} has no field {name}; it has {known}")
            if not isinstance(value, fields[name].type if isinstance(fields[name].type, type) else object):
                raise BadStepError(f"{name} of {self.type} must be {_word(fields[name].type)}, not {value!r}")
        return self.spec(**values)

    def units(self, values: Mapping[str, Any]) -> tuple[Unit, ...]:
        """The plan of this step; it depends on the spec alone."""
        return tuple(self.plan_of(self.spec_from(values)))


_KINDS: dict[str, StepKind] = {}
F = TypeVar("F", bound=PlanOf)


def step(
    type_: str, *, spec: type, title: str, undone_by: str = "", undoes: str = "", timeout_minutes: int = 30
) -> Callable[[F], F]:
    """Register the plan function of a kind of step."""

    def register(plan_of: F) -> F:
        _KINDS[type_] = StepKind(type_, title, spec, plan_of, undone_by, undoes, timeout_minutes)
        return plan_of

    return register


def known_steps() -> Mapping[str, StepKind]:
    """Every kind of step by its type."""
    return _KINDS


def step_kind(type_: str) -> StepKind:
    """The kind with this type; raises `BadStepError` when there is none."""
    if type_ not in _KINDS:
        raise BadStepError(f"There is no step of type {type_}; there are {', '.join(sorted(_KINDS))}")
    return _KINDS[type_]


def _word(wanted: Any) -> str:
    return {bool: "true or false", int: "a whole number", str: "a text"}.get(wanted, str(wanted))
