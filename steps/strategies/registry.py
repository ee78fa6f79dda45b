"""Registry of strategies, and the steps and rollback steps that one returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

StepDocument = dict[str, object]


@dataclass(frozen=True)
class StrategySteps:
    """What a strategy puts into a stage, as a pipeline would write it."""

    steps: tuple[StepDocument, ...]
    rollback_steps: tuple[StepDocument, ...]


_STRATEGIES: dict[str, Callable[[], StrategySteps]] = {}


def strategy(name: str) -> Callable[[Callable[[], StrategySteps]], Callable[[], StrategySteps]]:
    """Register a strategy under the name that a stage gives."""

    def register(fill: Callable[[], StrategySteps]) -> Callable[[], StrategySteps]:
        _STRATEGIES[name] = fill
        return fill

    return register


def get_strategies() -> Mapping[str, Callable[[], StrategySteps]]:
    """Return every strategy by name."""
    return _STRATEGIES


def build_step_document(type_: str, identifier: str, name: str, **spec: object) -> StepDocument:
    """One step as a pipeline writes it."""
    step = {"type": type_, "identifier": identifier, "name": name}
    return {"step": {**step, "spec": spec} if spec else step}
