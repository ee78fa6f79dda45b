"""Rules on task definitions: names, references between parts, network modes."""

from collections.abc import Iterator
from typing import Any

from aws.validation.problems import ShapeProblem
from aws.validation.rules import containers, fargate, volumes
from aws.validation.rules.common import RuleDocument, check_name, check_placeholders, check_tags, parse_units

MOST_CONSTRAINTS = 10


def validate_task_definition(definition: RuleDocument) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a task definition whose shapes are right."""
    yield from check_placeholders(definition)
    yield from check_name(("family",), definition.get("family"), "family name")
    yield from check_tags(definition.get("tags"))
    yield from volumes.validate_volumes(definition)
    yield from _check_sizes(definition)
    container_definitions = definition.get("containerDefinitions") or []
    if not container_definitions:
        yield ShapeProblem(("containerDefinitions",), "needs at least one container")
        return
    yield from containers.validate_containers(definition, container_definitions)
    if is_fargate(definition):
        yield from fargate.validate_fargate(definition, container_definitions)
    elif definition.get("ephemeralStorage"):
        yield ShapeProblem(("ephemeralStorage",), "is only for Fargate tasks", is_warning=True)


def is_fargate(definition: RuleDocument) -> bool:
    return "FARGATE" in (definition.get("requiresCompatibilities") or ())


def _check_sizes(definition: RuleDocument) -> Iterator[ShapeProblem]:
    for key in ("cpu", "memory"):
        value: Any = definition.get(key)
        if isinstance(value, str) and "<" not in value and parse_units(value) is None:
            example = '"256" or "1 vCPU"' if key == "cpu" else '"512" or "2GB"'
            yield ShapeProblem((key,), f"{value!r} is not a size; write {example}")
    if len(definition.get("placementConstraints") or []) > MOST_CONSTRAINTS:
        yield ShapeProblem(("placementConstraints",), f"holds more than {MOST_CONSTRAINTS} constraints")
