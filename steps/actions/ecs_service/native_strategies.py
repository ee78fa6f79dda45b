"""Strategies that ECS itself runs, in words. Shape: ECS API, DeploymentConfiguration."""

from collections.abc import Iterator

from aws.apis.ecs_types import Json


def describe_strategy(service: Json) -> str:
    """Return how ECS will deploy a service definition; "" for a rolling deployment.

    Such as "ECS deploys it LINEAR: 10 % of the traffic every 6 minutes, then a bake time of 5 minutes."
    """
    configuration = service.get("deploymentConfiguration") or {}
    strategy = configuration.get("strategy") or "ROLLING"
    if strategy == "ROLLING":
        return ""
    steps = [*_list_traffic_steps(strategy, configuration), *_list_bake_time(configuration)]
    sentences = [f"ECS deploys it {strategy}{': ' if steps else ''}{', then '.join(steps)}"]
    sentences += [_describe_hook(hook) for hook in configuration.get("lifecycleHooks") or ()]
    alarms = configuration.get("alarms") or {}
    if alarms.get("enable"):
        names = ", ".join(alarms.get("alarmNames") or ())
        end = "rolls it back" if alarms.get("rollback") else "fails it"
        sentences.append(f"An alarm {end}: {names}")
    return ". ".join(sentences) + "."


def _list_traffic_steps(strategy: str, configuration: Json) -> Iterator[str]:
    linear, canary = (configuration.get(f"{name}Configuration") or {} for name in ("linear", "canary"))
    if strategy == "BLUE_GREEN":
        yield "all traffic at once"
    elif strategy == "LINEAR" and "stepPercent" in linear:
        minutes = _format_minutes(linear.get("stepBakeTimeInMinutes", 0))
        yield f"{linear['stepPercent']:g} % of the traffic every {minutes}"
    elif strategy == "CANARY" and "canaryPercent" in canary:
        minutes = _format_minutes(canary.get("canaryBakeTimeInMinutes", 0))
        yield f"{canary['canaryPercent']:g} % of the traffic for {minutes}"
        yield "all of it"


def _list_bake_time(configuration: Json) -> Iterator[str]:
    if configuration.get("bakeTimeInMinutes"):
        yield f"a bake time of {_format_minutes(configuration['bakeTimeInMinutes'])}"


def _describe_hook(hook: Json) -> str:
    stages = ", ".join(hook.get("lifecycleStages") or ())
    if hook.get("targetType") == "PAUSE":
        return f"It pauses at {stages}"
    return f"Function {str(hook.get('hookTargetArn', '')).rsplit(':', 1)[-1]} runs at {stages}"


def _format_minutes(minutes: float) -> str:
    return "1 minute" if minutes == 1 else f"{minutes:g} minutes"
