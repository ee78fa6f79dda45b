"""What a strategy is: the steps, and the rollback steps, that it puts into an empty stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

StepDocument = dict[str, object]


@dataclass(frozen=True)
class Filling:
    """What a strategy puts into a stage, as a pipeline would write it."""

    steps: tuple[StepDocument, ...]
    rollback_steps: tuple[StepDocument, ...]


_STRATEGIES: dict[str, Callable[[], Filling]] = {}


def strategy(name: str) -> Callable[[Callable[[], Filling]], Callable[[], Filling]]:
    """Register a strategy under the name that a stage gives."""

    def register(fill: Callable[[], Filling]) -> Callable[[], Filling]:
        _STRATEGIES[name] = fill
        return fill

    return register


def known_strategies() -> Mapping[str, Callable[[], Filling]]:
    """Every strategy by name."""
    return _STRATEGIES


def step_document(type_: str, identifier: str, name: str, **spec: object) -> StepDocument:
    """One step as a pipeline writes it."""
    step = {"type": type_, "identifier": identifier, "name": name}
    return {"step": {**step, "spec": spec} if spec else step}
