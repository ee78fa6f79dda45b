"""Reasons why an ECS service cannot be adopted, each with the next step."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.apis.ecs_types import parse_tags
from steps.actions.blue_green.identity import BLUE, GREEN, VERSION_TAG
from steps.actions.ecs_service.controller_changes import list_controller_obstacles
from steps.actions.ecs_service.express_services import EXPRESS_ADVICE, EXPRESS_REASON, is_express
from steps.actions.ecs_service.snapshots import CONTROLLER_TOOLS, ECS, get_controller

Json = Mapping[str, Any]
_EXPRESSION_START = "<+"


def check_service(service: Json) -> Iterator[str]:
    """Yield the obstacles that DescribeServices shows."""
    if is_express(service):
        yield f"{EXPRESS_REASON}. {EXPRESS_ADVICE}."
        return
    controller = get_controller(service)
    if controller not in (ECS, *CONTROLLER_TOOLS):
        yield f"The ECS service uses the {controller} deployment controller, which Slipway does not know."
        return
    if controller != ECS:
        obstacles = list_controller_obstacles(service)
        yield from (f"{obstacle}. Then read the ECS service again." for obstacle in obstacles)
    elif _is_deploying(service):
        yield (
            "An ECS deployment is in progress. Wait until it completes, or fix it if it is stuck. Then read "
            "the ECS service again."
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
            "The ECS service belongs to a blue/green pair and has deploymentCircuitBreaker enabled. "
            "Blue/green deployments do not support the circuit breaker: Slipway rolls back to the "
            "previous version, which keeps running. Disable it with UpdateService, then read the ECS "
            "service again."
        )
    if partner is not None and _is_idle(service, partner):
        name = partner.get("serviceName", "")
        yield (
            f"This is the stage service of a blue/green pair. Adopt the production service {name}: both are "
            "adopted together."
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
            f"The ECS service runs {task_definition.get('taskDefinitionArn', 'a revision')}, which is "
            "INACTIVE, so a rollback could not restore it. Register the same content as a new revision, "
            "update the ECS service to it, then read it again."
        )


def check_texts(*documents: Any) -> Iterator[str]:
    """Yield an obstacle where a text would be parsed as an expression."""
    if any(_EXPRESSION_START in text for text in _list_texts(documents)):
        yield (
            f"A value contains {_EXPRESSION_START}, which Slipway would evaluate as an expression. "
            "Change the value in AWS, then read the ECS service again."
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
