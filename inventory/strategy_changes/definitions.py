"""Service definitions and stages rewritten for another strategy."""

import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

from catalog.manifests.checks import TARGET_GROUP_KEY
from catalog.manifests.yaml_drafts import NotEditable, YamlDraft
from inventory.strategy_changes.strategies import (
    CLASSIC,
    NATIVE_FIELDS,
    NATIVE_STRATEGIES,
    PERCENT_FIELDS,
    RuleReference,
    StrategySettings,
)
from pipelines.deployability import BLUE_GREEN_STEP
from pipelines.editor.edits import list_step_types, set_strategy
from pipelines.editor.tree_paths import (
    TreePath,
    get_body,
    get_children,
    get_execution_path,
    get_or_create_list,
)
from steps.actions.blue_green.traffic_shares import SHIFT_STEP_TYPE
from steps.actions.ecs_service.snapshots import ECS
from steps.strategies.registry import StrategySteps, add_controller_change, get_strategies

_CONFIGURATION: Final = "deploymentConfiguration"
_BREAKER: Final = "deploymentCircuitBreaker"
_ADVANCED: Final = "advancedConfiguration"
_HOOKS: Final = "lifecycleHooks"
_CHANGE_STEP: Final = "EcsChangeController"


def change_definition(text: str, settings: StrategySettings) -> str:
    """Return a service definition for a strategy; comments and order of YAML stay.

    Raises `NotEditable`.
    """
    if text.lstrip().startswith("{"):
        value = YamlDraft(text).value
        _change_fields(value, settings)
        return f"{json.dumps(value, indent=2, ensure_ascii=False)}\n"
    draft = YamlDraft(text)
    _change_fields(draft.value, settings)
    return draft.render()


def _change_fields(definition: dict[str, Any], settings: StrategySettings) -> None:
    definition.pop("deploymentController", None)
    configuration = definition.get(_CONFIGURATION) or {}
    if not isinstance(configuration, dict):
        raise NotEditable(f"{_CONFIGURATION} is an expression. Change the strategy in the YAML.")
    had_strategy = "strategy" in configuration
    new_fields = _build_native_fields(settings) if settings.is_native else {}
    for name in NATIVE_FIELDS:
        if name not in new_fields and (name != _HOOKS or not settings.is_native):
            configuration.pop(name, None)
    _change_balancers(definition, settings)
    if settings.strategy == CLASSIC:
        configuration.pop(_BREAKER, None)
    elif settings.is_native:
        configuration |= new_fields
    elif had_strategy:
        # UpdateService leaves the strategy as it is if it is missing.
        configuration["strategy"] = settings.strategy
    if configuration:
        definition[_CONFIGURATION] = configuration
    else:
        definition.pop(_CONFIGURATION, None)


def _build_native_fields(settings: StrategySettings) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "strategy": settings.strategy,
        "bakeTimeInMinutes": settings.bake_minutes,
    }
    if settings.strategy in PERCENT_FIELDS:
        name, percent, minutes = PERCENT_FIELDS[settings.strategy]
        number = int(settings.percent) if float(settings.percent).is_integer() else settings.percent
        fields[name] = {percent: number, minutes: settings.step_minutes}
    return fields


def _change_balancers(definition: dict[str, Any], settings: StrategySettings) -> None:
    balancers = definition.get("loadBalancers")
    if not isinstance(balancers, list) or not balancers:
        return
    if len(balancers) > 1 or not isinstance(balancers[0], dict):
        raise NotEditable(
            "The service definition has several load balancers. Change the strategy in the YAML."
        )
    (balancer,) = balancers
    balancer.pop(_ADVANCED, None)
    balancer[TARGET_GROUP_KEY] = (
        f"<+{TARGET_GROUP_KEY}>" if settings.strategy == CLASSIC else settings.target_group
    )
    if settings.is_native and settings.production:
        rules = {"productionListenerRule": settings.production.key}
        rules |= {"testListenerRule": settings.test.key} if settings.test else {}
        balancer[_ADVANCED] = {
            "alternateTargetGroupArn": settings.alternate_group,
            **rules,
            "roleArn": settings.role,
        }


def change_pipeline(text: str, stage: TreePath, settings: StrategySettings, *, template: str) -> str:
    """Return a pipeline whose stage deploys by another strategy; its other steps stay.

    `template` is the name of the strategy's steps. Raises `NotEditable`.
    """
    draft = YamlDraft(text)
    set_strategy(draft.value, stage, template)
    at = get_execution_path(stage)
    steps = get_or_create_list(draft.value, (*at, "steps"))
    if settings.strategy != CLASSIC:
        steps[:] = [item for item in steps if get_body(item).get("type") != SHIFT_STEP_TYPE]
    _refuse_nested_steps(steps)
    for item in steps:
        body = get_body(item)
        if body.get("type") == BLUE_GREEN_STEP and settings.production and settings.test:
            spec = body.setdefault("spec", {})
            spec |= _build_listeners(settings.production, settings.test)
    if settings.controller != ECS:
        _hand_over(draft.value, at, settings.service)
    return draft.render()


def _refuse_nested_steps(steps: Sequence[Any]) -> None:
    types = {get_body(item).get("type") for build in get_strategies().values() for item in build().steps}
    nested = [child for item in steps for child in get_children(item, ())[0]]
    if types & {type_ for child in nested for type_ in list_step_types(child)}:
        raise NotEditable("A step of the strategy is in a group. Change the strategy in the pipeline's YAML.")


def _build_listeners(production: RuleReference, test: RuleReference) -> dict[str, str]:
    return {
        "loadBalancer": production.balancer,
        "prodListener": production.listener,
        "prodListenerRuleArn": production.rule,
        "stageListener": test.listener,
        "stageListenerRuleArn": test.rule,
    }


def _hand_over(tree: Any, execution: TreePath, service: str) -> None:
    """Let ECS take the service over before the first step, unless a step does so already."""
    steps = get_or_create_list(tree, (*execution, "steps"))
    if any(get_body(item).get("type") == _CHANGE_STEP for item in steps):
        return
    added = add_controller_change(StrategySteps((), ()), service)
    steps[:0] = deepcopy(list(added.steps))
    get_or_create_list(tree, (*execution, "rollbackSteps")).extend(deepcopy(list(added.rollback_steps)))


def choose_template(strategy: str, running: str) -> str:
    """Return the name of the steps for a strategy.

    A service that ECS deploys by its own strategy becomes rolling with the step that knows both.
    """
    if strategy == CLASSIC:
        return "BlueGreen"
    return "Native" if {strategy, running} & set(NATIVE_STRATEGIES) else "Rolling"
