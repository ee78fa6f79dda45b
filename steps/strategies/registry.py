"""Registry of strategies, with the steps and rollback steps of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

StepDocument = dict[str, object]


@dataclass(frozen=True)
class StrategySteps:
    """Steps that a strategy adds to a stage, in the form of a pipeline."""

    steps: tuple[StepDocument, ...]
    rollback_steps: tuple[StepDocument, ...]


# Titles of strategies whose name in YAML differs from the word on pages.
_TITLES = {"BlueGreen": "Blue/green", "Native": "Native (run by ECS)"}
_STRATEGIES: dict[str, Callable[[], StrategySteps]] = {}


def strategy(name: str) -> Callable[[Callable[[], StrategySteps]], Callable[[], StrategySteps]]:
    """Register a strategy under its name in stages."""

    def register(fill: Callable[[], StrategySteps]) -> Callable[[], StrategySteps]:
        _STRATEGIES[name] = fill
        return fill

    return register


def get_strategies() -> Mapping[str, Callable[[], StrategySteps]]:
    """Return every strategy by name."""
    return _STRATEGIES


def build_step_document(type_: str, identifier: str, name: str, **spec: object) -> StepDocument:
    """Return one step in the form of a pipeline."""
    step = {"type": type_, "identifier": identifier, "name": name}
    return {"step": {**step, "spec": spec} if spec else step}


def add_controller_change(steps: StrategySteps, ecs_service: str) -> StrategySteps:
    """Return the steps after one that hands an ECS service of another deployment controller to ECS."""
    change = build_step_document(
        "EcsChangeController", "ecsChangeController", "ECS Change Controller", service=ecs_service
    )
    rollback = build_step_document(
        "EcsChangeControllerRollback", "ecsChangeControllerRollback", "ECS Change Controller Rollback"
    )
    return StrategySteps((change, *steps.steps), (*steps.rollback_steps, rollback))


def list_strategy_titles() -> list[tuple[str, str]]:
    """Return the names of all strategies with their titles on pages, sorted by name."""
    return [(name, _TITLES.get(name, name)) for name in sorted(get_strategies())]
