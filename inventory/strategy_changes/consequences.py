"""What a change of the strategy does in AWS, and what it cannot give back, in sentences."""

from collections.abc import Iterator

from catalog.manifests.documents import BadDocument, parse_manifest
from inventory.strategy_changes.readings import ServiceReading
from inventory.strategy_changes.strategies import (
    CLASSIC,
    NATIVE_STRATEGIES,
    ROLLING,
    StrategySettings,
    describe_strategy_name,
)
from steps.actions.ecs_service.native_strategies import describe_strategy
from steps.actions.ecs_service.snapshots import ECS, get_pair_names


def describe_changes(reading: ServiceReading, settings: StrategySettings, definition: str) -> Iterator[str]:
    """Yield what the next runs change in AWS; `definition` is the new service definition."""
    name = reading.name
    yield "Saving changes nothing in AWS. The next run does."
    if settings.controller != ECS:
        yield (
            f"The run makes ECS the deployment controller of {name}, in place, instead of "
            f"{describe_strategy_name(settings.controller)}. AWS does not say whether ECS replaces the "
            "tasks then."
        )
    if settings.strategy == CLASSIC:
        first, second = get_pair_names(name)
        yield (
            f"Each run starts the new version as {first} or {second} behind the stage rule, swaps the "
            "target groups "
            f"of both rules, and scales the previous version to 0 tasks. The first run scales {name} to "
            "0; it stays."
        )
    elif settings.strategy in NATIVE_STRATEGIES:
        yield f"The ECS service {name} stays. {_describe_native(definition)}"
        yield (
            "Each run starts the new tasks in target group "
            f"{reading.get_group_name(settings.alternate_group)} or "
            f"{reading.get_group_name(settings.target_group)}, whichever is free. ECS itself changes the "
            "production "
            "rule, so no other tool may."
        )
    else:
        yield from _describe_rolling(reading, settings)
    if settings.strategy != ROLLING:
        yield "During a deployment, up to twice the tasks run."


def _describe_native(definition: str) -> str:
    try:
        return describe_strategy(parse_manifest(definition, "").value)
    except (BadDocument, AttributeError):
        return ""


def _describe_rolling(reading: ServiceReading, settings: StrategySettings) -> Iterator[str]:
    name, group = reading.name, reading.get_group_name(settings.target_group)
    where = f", in target group {group}, which has the production traffic" if settings.target_group else ""
    if reading.strategy == CLASSIC:
        yield (
            f"The run starts the tasks of {name}{where}, then scales "
            f"{reading.service.get('serviceName', '')} to 0 "
            "tasks. Both ECS services stay."
        )
    else:
        yield (
            f"Each run replaces the tasks of {name} a part at a time{where}. No listener rule changes any "
            "more."
        )
    if reading.strategy in NATIVE_STRATEGIES:
        yield (
            "The step ECS Native Deploy stays: it deploys rolling too. After the next successful run, "
            "change to "
            "rolling again for the step ECS Rolling Deploy."
        )


def describe_losses(reading: ServiceReading, settings: StrategySettings, before: str) -> Iterator[str]:
    """Yield what the way back does not restore; `before` is the present service definition."""
    if settings.controller != ECS:
        tool = describe_strategy_name(settings.controller)
        yield (
            f"After a successful run, {tool} cannot deploy the service any more. Turn off what starts "
            "deployments there."
        )
    if settings.strategy == CLASSIC and "deploymentCircuitBreaker" in before:
        yield (
            "deploymentCircuitBreaker is removed: a failed blue/green deployment restores the traffic "
            "instead."
        )
    if reading.strategy in NATIVE_STRATEGIES and settings.strategy == ROLLING and "lifecycleHooks" in before:
        yield "The lifecycle hooks are removed: a rolling deployment has none."
