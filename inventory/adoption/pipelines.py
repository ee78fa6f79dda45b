"""Pipelines that adoptions create."""

from typing import Final

import yaml

from catalog.models import Infrastructure, Service
from inventory.adoption.traffic.options import RuleCandidate, TrafficOption
from pipelines.pipeline_templates import render_pipeline_template

_CREATE_STEP: Final = "EcsBlueGreenCreateService"
_RUNTIME_INPUT: Final = "<+input>"
# Empty means the default rule of the listener.
_RUNTIME_INPUT_WITH_DEFAULT: Final = "<+input>.default()"
_LISTENER_INPUTS: Final = {
    "loadBalancer": _RUNTIME_INPUT,
    "prodListener": _RUNTIME_INPUT,
    "prodListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
    "stageListener": _RUNTIME_INPUT,
    "stageListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
}


def render_pipeline(
    strategy: str, infrastructure: Infrastructure, service: Service, choice: TrafficOption | None = None
) -> str:
    """Render a pipeline with one stage; unknown listeners become runtime variables."""
    text = render_pipeline_template(
        strategy,
        service=service.identifier,
        environment=infrastructure.environment.identifier,
        infrastructure=infrastructure.identifier,
        title=service.name,
    )
    document = yaml.safe_load(text)
    pipeline = document["pipeline"]
    for stage in pipeline["stages"]:
        for step in stage["stage"]["spec"]["execution"]["steps"]:
            if step["step"]["type"] == _CREATE_STEP:
                settings = _build_listener_settings(choice)
                inputs = {name: value for name, value in _LISTENER_INPUTS.items() if name not in settings}
                expressions = {name: f"<+pipeline.variables.{name}>" for name in inputs}
                step["step"]["spec"] = {name: {**settings, **expressions}[name] for name in _LISTENER_INPUTS}
                pipeline |= {"variables": inputs} if inputs else {}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def _build_listener_settings(choice: TrafficOption | None) -> dict[str, str]:
    """Return the step settings that were read back."""
    if choice is None:
        return {}
    production, stage = choice.production, choice.stage
    settings = {"loadBalancer": production.balancer, **_build_rule_settings("prod", production)}
    return {**settings, **_build_rule_settings("stage", stage)} if stage else settings


def _build_rule_settings(prefix: str, rule: RuleCandidate) -> dict[str, str]:
    return {f"{prefix}Listener": rule.listener, f"{prefix}ListenerRuleArn": rule.rule}
