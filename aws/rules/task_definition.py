"""What RegisterTaskDefinition refuses beyond shapes: names, references between parts, network modes."""

from collections.abc import Iterator
from typing import Any

from aws.problems import ShapeProblem
from aws.rules import containers, fargate, volumes
from aws.rules.base import Document, left_placeholders, name_problems, tag_problems, units

MOST_CONSTRAINTS = 10


def problems(definition: Document) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a task definition whose shapes are right."""
    yield from left_placeholders(definition)
    yield from name_problems(("family",), definition.get("family"), "family name")
    yield from tag_problems(definition.get("tags"))
    yield from volumes.problems(definition)
    yield from _sizes(definition)
    listed = definition.get("containerDefinitions") or []
    if not listed:
        yield ShapeProblem(("containerDefinitions",), "needs at least one container")
        return
    yield from containers.problems(definition, listed)
    if is_fargate(definition):
        yield from fargate.problems(definition, listed)
    elif definition.get("ephemeralStorage"):
        yield ShapeProblem(("ephemeralStorage",), "is only for Fargate tasks", is_warning=True)


def is_fargate(definition: Document) -> bool:
    return "FARGATE" in (definition.get("requiresCompatibilities") or ())


def _sizes(definition: Document) -> Iterator[ShapeProblem]:
    for key in ("cpu", "memory"):
        value: Any = definition.get(key)
        if isinstance(value, str) and "<" not in value and units(value) is None:
            example = '"256" or "1 vCPU"' if key == "cpu" else '"512" or "2GB"'
            yield ShapeProblem((key,), f"{value!r} is not a size; write {example}")
    if len(definition.get("placementConstraints") or []) > MOST_CONSTRAINTS:
        yield ShapeProblem(("placementConstraints",), f"holds more than {MOST_CONSTRAINTS} constraints")
