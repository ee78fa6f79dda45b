"""Service definitions that AWS takes and that no step of Slipway can deploy."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws.problems import ShapeProblem
from aws.walk import is_expression
from steps.expressions import named_in

TARGET_GROUP = "targetGroupArn"


def strategy_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield what keeps ECS itself from replacing the tasks one by one, as every strategy here needs it."""
    controller = _inside(definition, "deploymentController").get("type", "ECS")
    strategy = _inside(definition, "deploymentConfiguration").get("strategy", "ROLLING")
    scheduling = definition.get("schedulingStrategy", "REPLICA")
    if _is_other(controller, "ECS"):
        message = (
            f"the {controller} deployment controller deploys by other means than Slipway. Remove "
            "deploymentController, or deploy this ECS service with that controller"
        )
        yield ShapeProblem(("deploymentController", "type"), message)
    if _is_other(strategy, "ROLLING"):
        message = (
            f"{strategy} is AWS's own strategy, which moves traffic by itself. Slipway needs "
            "deploymentConfiguration.strategy ROLLING, or none, also for its own canary and blue/green"
        )
        yield ShapeProblem(("deploymentConfiguration", "strategy"), message)
    if _is_other(scheduling, "REPLICA"):
        message = f"{scheduling} has no desired count to follow. Use schedulingStrategy REPLICA"
        yield ShapeProblem(("schedulingStrategy",), message)


def blue_green_problems(definition: Mapping[str, Any]) -> Iterator[ShapeProblem]:
    """Yield what keeps a definition, whose expressions are not filled in, from a blue/green deployment."""
    breaker = _inside(_inside(definition, "deploymentConfiguration"), "deploymentCircuitBreaker")
    if breaker.get("enable") is True:
        message = (
            "is for rolling and canary deployments: in blue/green the version from before keeps running, "
            "and Slipway brings it back. Remove deploymentCircuitBreaker"
        )
        yield ShapeProblem(("deploymentConfiguration", "deploymentCircuitBreaker"), message)
    balancers = definition.get("loadBalancers")
    if not is_expression(balancers) and TARGET_GROUP not in {path for _, path in named_in(balancers or [])}:
        message = (
            f"names no target group with <+{TARGET_GROUP}>. Write `{TARGET_GROUP}: <+{TARGET_GROUP}>` under "
            "loadBalancers, with containerName and containerPort: a fixed target group would be the one of "
            "production every second time"
        )
        yield ShapeProblem(("loadBalancers",) if "loadBalancers" in definition else (), message)


def _inside(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _is_other(value: Any, usual: str) -> bool:
    """Whether a choice is made and is not the usual one; what is no text is told as such."""
    return isinstance(value, str) and bool(value) and not is_expression(value) and value != usual
