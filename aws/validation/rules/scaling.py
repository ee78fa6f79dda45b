"""Rules on scalable targets and scaling policies of ECS services."""

import re
from collections.abc import Iterator

from aws.validation.problems import ShapeProblem, quote_value
from aws.validation.rules.common import RuleDocument, check_placeholders

_RESOURCE_ID_PATTERN = re.compile(r"service/[^/\s]+/[^/\s]+\Z")
_CONFIGURATIONS = {
    "TargetTrackingScaling": "TargetTrackingScalingPolicyConfiguration",
    "StepScaling": "StepScalingPolicyConfiguration",
    "PredictiveScaling": "PredictiveScalingPolicyConfiguration",
}


def validate_scalable_target(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of a scalable target with valid shapes."""
    yield from check_placeholders(definition)
    yield from _check_ecs_resource(definition)
    minimum, maximum = definition.get("MinCapacity"), definition.get("MaxCapacity")
    for key, value in (("MinCapacity", minimum), ("MaxCapacity", maximum)):
        if isinstance(value, int) and value < 0:
            yield ShapeProblem((key,), f"is {value}; it cannot be negative")
        if value is None:
            yield ShapeProblem((), f'"{key}" is missing; a new scalable target needs it')
    if isinstance(minimum, int) and isinstance(maximum, int) and minimum > maximum:
        yield ShapeProblem(("MinCapacity",), f"{minimum} is more than the MaxCapacity of {maximum}")


def validate_scaling_policy(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Yield the problems of a scaling policy with valid shapes."""
    yield from check_placeholders(definition)
    yield from _check_ecs_resource(definition)
    kind = definition.get("PolicyType", "StepScaling")
    expected = _CONFIGURATIONS.get(str(kind))
    for configuration in _CONFIGURATIONS.values():
        if configuration != expected and definition.get(configuration):
            yield ShapeProblem((configuration,), f"does not belong to the PolicyType {kind}")
    if expected and not definition.get(expected):
        yield ShapeProblem(("PolicyType",), f"{kind} needs {expected}")
    yield from _check_target_tracking(definition.get("TargetTrackingScalingPolicyConfiguration") or {})


def _check_target_tracking(configuration: RuleDocument) -> Iterator[ShapeProblem]:
    if not configuration:
        return
    path = ("TargetTrackingScalingPolicyConfiguration",)
    predefined = configuration.get("PredefinedMetricSpecification")
    if bool(predefined) == bool(configuration.get("CustomizedMetricSpecification")):
        message = "needs either PredefinedMetricSpecification or CustomizedMetricSpecification"
        yield ShapeProblem(path, message)
    metric = (predefined or {}).get("PredefinedMetricType")
    if metric == "ALBRequestCountPerTarget" and not (predefined or {}).get("ResourceLabel"):
        metric_path = (*path, "PredefinedMetricSpecification")
        yield ShapeProblem(metric_path, "ALBRequestCountPerTarget needs a ResourceLabel")
    for key in ("ScaleInCooldown", "ScaleOutCooldown"):
        seconds = configuration.get(key)
        if isinstance(seconds, int) and seconds < 0:
            yield ShapeProblem((*path, key), f"is {seconds}; it cannot be negative")


def _check_ecs_resource(definition: RuleDocument) -> Iterator[ShapeProblem]:
    if definition.get("ServiceNamespace") != "ecs":
        yield ShapeProblem(("ServiceNamespace",), "must be ecs")
    if definition.get("ScalableDimension") != "ecs:service:DesiredCount":
        yield ShapeProblem(("ScalableDimension",), "must be ecs:service:DesiredCount")
    resource = definition.get("ResourceId")
    if isinstance(resource, str) and not _RESOURCE_ID_PATTERN.match(resource) and "<+" not in resource:
        yield ShapeProblem(("ResourceId",), f"{quote_value(resource)} is not service/CLUSTER/SERVICE")
