"""Reasons why an ECS service cannot be adopted, each with the next step."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.apis.ecs_types import parse_tags
from steps.actions.blue_green.identity import BLUE, GREEN, VERSION_TAG

Json = Mapping[str, Any]
_EXPRESSION_START = "<+"


def check_service(service: Json) -> Iterator[str]:
    """Yield the obstacles that DescribeServices shows."""
    controller = (service.get("deploymentController") or {}).get("type", "ECS")
    configuration = service.get("deploymentConfiguration") or {}
    if controller != "ECS":
        yield _describe_controller_refusal(controller)
        return
    if service.get("schedulingStrategy", "REPLICA") != "REPLICA":
        yield (
            "It runs one task on each container instance (DAEMON), which has no count to follow or to bring "
            "back. Leave it with what deploys it; AWS keeps the scheduling strategy of an ECS service for "
            "life, so only a new one with REPLICA can be deployed by Slipway."
        )
    strategy = configuration.get("strategy") or "ROLLING"
    if strategy != "ROLLING":
        yield (
            f"It has AWS's own deployment strategy {strategy}. Set deploymentConfiguration.strategy to "
            "ROLLING in AWS, then read it again."
        )
    if _is_deploying(service):
        yield (
            "A deployment of it is under way in ECS. Wait until it is over, or put it right where it cannot "
            "end; then read it again."
        )


def _describe_controller_refusal(controller: str) -> str:
    instead = {
        "CODE_DEPLOY": "Leave it with CodeDeploy, or set deploymentController to ECS with UpdateService",
        "EXTERNAL": "Leave it with what manages its task sets, or move it to deploymentController ECS",
    }.get(controller, "Leave it with what deploys it, or set deploymentController to ECS")
    return (
        f"It is deployed by the {controller} controller, which Slipway does not follow. {instead}; then read "
        "it again."
    )


def _is_deploying(service: Json) -> bool:
    """Return whether ECS is still replacing tasks."""
    deployments = service.get("deployments") or ()
    return len(deployments) > 1 or any(
        deployment.get("rolloutState") == "IN_PROGRESS" for deployment in deployments
    )


def check_pair(service: Json, partner: Json | None) -> Iterator[str]:
    """Yield the obstacles of one half of a blue/green pair; `partner` is the other half."""
    breaker = (service.get("deploymentConfiguration") or {}).get("deploymentCircuitBreaker") or {}
    if breaker.get("enable"):
        yield (
            "It is one of a blue/green pair and has deploymentCircuitBreaker enabled, which a blue/green "
            "deployment refuses: the version from before keeps running there, and Slipway brings it back. "
            "Turn it off with UpdateService, then read it again."
        )
    if partner is not None and _is_idle(service, partner):
        name = partner.get("serviceName", "")
        yield (
            f"It is the idle one of a blue/green pair, {name} is the live one. Adopt {name}: the pair is "
            "taken over together."
        )


def _is_idle(service: Json, partner: Json) -> bool:
    if not service.get("desiredCount") and partner.get("desiredCount"):
        return True
    tags = [parse_tags(half.get("tags")).get(VERSION_TAG, "") for half in (service, partner)]
    return tags == [GREEN, BLUE]


def check_task_definition(task_definition: Json) -> Iterator[str]:
    """Yield the obstacles of the running revision."""
    if task_definition.get("status") == "INACTIVE":
        yield (
            f"It runs {task_definition.get('taskDefinitionArn', 'a revision')}, which is INACTIVE: AWS "
            "would not let a rollback go back to it. Register the same contents as a new revision, let the "
            "ECS service run that, then read it again."
        )


def check_texts(*documents: Any) -> Iterator[str]:
    """Yield an obstacle where a text would be parsed as an expression."""
    if any(_EXPRESSION_START in text for text in _list_texts(documents)):
        yield (
            f"A text in it holds {_EXPRESSION_START}, which Slipway would take for an expression of its own. "
            "Change that text in AWS, then read it again."
        )


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _list_texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _list_texts(inner)
