"""Strategies that a service can change to, and the settings that each needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.manifests.checks import get_native_strategy
from pipelines.deployability import BLUE_GREEN_STEP
from steps.actions.ecs_service.snapshots import CONTROLLER_TOOLS, ECS, get_controller
from steps.kinds.native import DEPLOY_TYPE

ROLLING: Final = "ROLLING"
CLASSIC: Final = "SLIPWAY_BLUE_GREEN"
NATIVE_STRATEGIES: Final = ("BLUE_GREEN", "LINEAR", "CANARY")
TITLES: Final[Mapping[str, str]] = {
    ROLLING: "Rolling",
    CLASSIC: "Blue/green by Slipway",
    "BLUE_GREEN": "Blue/green by ECS",
    "LINEAR": "Linear by ECS",
    "CANARY": "Canary by ECS",
}
# Settings that only a strategy of ECS has, under deploymentConfiguration.
NATIVE_FIELDS: Final = (
    "strategy",
    "bakeTimeInMinutes",
    "linearConfiguration",
    "canaryConfiguration",
    "lifecycleHooks",
)
# https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DeploymentConfiguration.html
PERCENT_FIELDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "LINEAR": ("linearConfiguration", "stepPercent", "stepBakeTimeInMinutes"),
    "CANARY": ("canaryConfiguration", "canaryPercent", "canaryBakeTimeInMinutes"),
}
MOST_MINUTES: Final = 1440


@dataclass(frozen=True)
class RuleReference:
    """A listener rule of a load balancer; `rule` is empty for a listener without rules."""

    balancer: str
    listener: str
    rule: str

    @property
    def key(self) -> str:
        """Return the ARN that ECS knows it by: of the rule, or of the listener of a network load balancer."""
        return self.rule or self.listener


@dataclass(frozen=True)
class StrategySettings:
    """The strategy that a service changes to; a strategy uses only some of the other settings.

    `target_group` has the production traffic now, `controller` deploys the service now, `service` is its
    name in ECS.
    """

    strategy: str
    target_group: str = ""
    alternate_group: str = ""
    production: RuleReference | None = None
    test: RuleReference | None = None
    role: str = ""
    percent: float = 10.0
    step_minutes: int = 5
    bake_minutes: int = 5
    controller: str = ECS
    service: str = ""

    @property
    def is_native(self) -> bool:
        return self.strategy in NATIVE_STRATEGIES


def get_running_strategy(services: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return how the ECS services are deployed: a strategy, or the controller that is not ECS; "" for none.

    `name` is the serviceName of the service definition, and the halves of a pair have a number after it.
    """
    serving = [service for service in services if service.get("runningCount") or service.get("desiredCount")]
    main = next((service for service in serving if service["serviceName"] == name), None)
    if main is None:
        return CLASSIC if serving else ""
    controller = get_controller(main)
    if controller != ECS:
        return controller
    return get_native_strategy(main) or ROLLING


def get_written_strategy(definition: Mapping[str, Any], step_types: Sequence[str]) -> str:
    """Return the strategy that a service definition and the steps of its stage describe."""
    if BLUE_GREEN_STEP in step_types:
        return CLASSIC
    return (get_native_strategy(definition) if DEPLOY_TYPE in step_types else "") or ROLLING


def describe_strategy_name(strategy: str) -> str:
    """Return the name of a strategy, or of the tool behind another controller."""
    return TITLES.get(strategy) or CONTROLLER_TOOLS.get(strategy, strategy)
