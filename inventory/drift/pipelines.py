"""The pipeline that is made for an ECS service that is taken over."""

from typing import Final

import yaml

from catalog.models import Infrastructure, Service
from inventory.drift.traffic.fitting import Choice, Lead
from pipelines.templates import new_pipeline

_CREATES: Final = "EcsBlueGreenCreateService"
_ASKED: Final = "<+input>"
# Left empty, the default rule of the listener is meant.
_ASKED_OR_DEFAULT: Final = "<+input>.default()"
_LISTENERS: Final = {
    "loadBalancer": _ASKED,
    "prodListener": _ASKED,
    "prodListenerRuleArn": _ASKED_OR_DEFAULT,
    "stageListener": _ASKED,
    "stageListenerRuleArn": _ASKED_OR_DEFAULT,
}


def pipeline_text(
    strategy: str, place: Infrastructure, service: Service, choice: Choice | None = None
) -> str:
    """A pipeline with one stage; what could not be read back, a listener, say, is asked for by a variable."""
    text = new_pipeline(
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
            if one["step"]["type"] == _CREATES:
                found = _found(choice)
                asked = {name: how for name, how in _LISTENERS.items() if name not in found}
                told = {name: f"<+pipeline.variables.{name}>" for name in asked}
                one["step"]["spec"] = {name: {**found, **told}[name] for name in _LISTENERS}
                pipeline |= {"variables": asked} if asked else {}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def _found(choice: Choice | None) -> dict[str, str]:
    """The settings of the step that were read back."""
    if choice is None:
        return {}
    production, stage = choice.production, choice.stage
    found = {"loadBalancer": production.balancer, **_rule("prod", production)}
    return {**found, **_rule("stage", stage)} if stage else found


def _rule(which: str, lead: Lead) -> dict[str, str]:
    return {f"{which}Listener": lead.listener, f"{which}ListenerRuleArn": lead.rule}
