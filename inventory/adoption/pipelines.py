"""Pipelines that adoptions create."""

from typing import Final

import yaml

from catalog.models import Infrastructure, Service
from inventory.adoption.traffic.options import RuleCandidate, TrafficOption
from pipelines.pipeline_templates import render_pipeline_template

_CREATE_STEP: Final = "EcsBlueGreenCreateService"
_RUNTIME_INPUT: Final = "<+input>"
# Left empty, the default rule of the listener is meant.
_RUNTIME_INPUT_WITH_DEFAULT: Final = "<+input>.default()"
_LISTENER_INPUTS: Final = {
    "loadBalancer": _RUNTIME_INPUT,
    "prodListener": _RUNTIME_INPUT,
    "prodListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
    "stageListener": _RUNTIME_INPUT,
    "stageListenerRuleArn": _RUNTIME_INPUT_WITH_DEFAULT,
}


def render_pipeline(
    strategy: str, place: Infrastructure, service: Service, choice: TrafficOption | None = None
) -> str:
    """A pipeline with one stage; what could not be read back, a listener, say, is asked for by a variable."""
    text = render_pipeline_template(
        strategy,
        service=service.identifier,
        environment=place.environment.identifier,
        infrastructure=place.identifier,
        title=service.name,
    )
    document = yaml.safe_load(text)
    pipeline = document["pipeline"]
    for stage in pipeline["stages"]:
        for one in stage["stage"]["spec"]["execution"]["steps"]:
            if one["step"]["type"] == _CREATE_STEP:
                found = _build_listener_settings(choice)
                asked = {name: how for name, how in _LISTENER_INPUTS.items() if name not in found}
                told = {name: f"<+pipeline.variables.{name}>" for name in asked}
                one["step"]["spec"] = {name: {**found, **told}[name] for name in _LISTENER_INPUTS}
                pipeline |= {"variables": asked} if asked else {}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def _build_listener_settings(choice: TrafficOption | None) -> dict[str, str]:
    """The settings of the step that were read back."""
    if choice is None:
        return {}
    production, stage = choice.production, choice.stage
    found = {"loadBalancer": production.balancer, **_build_rule_settings("prod", production)}
    return {**found, **_build_rule_settings("stage", stage)} if stage else found


def _build_rule_settings(which: str, lead: RuleCandidate) -> dict[str, str]:
    return {f"{which}Listener": lead.listener, f"{which}ListenerRuleArn": lead.rule}
