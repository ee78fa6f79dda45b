"""What RunTask refuses beyond shapes."""

from collections.abc import Iterator

from aws.problems import ShapeProblem
from aws.rules import launching
from aws.rules.base import Document, left_placeholders, tag_problems

MOST_STRATEGIES = 5
MOST_CONSTRAINTS = 10
GROUP_OF_SERVICES = "service:"


def problems(request: Document) -> Iterator[ShapeProblem]:
    """Everything that ECS is known to refuse in a RunTask request whose shapes are right."""
    yield from left_placeholders(request)
    yield from tag_problems(request.get("tags"))
    yield from launching.problems(request)
    count = request.get("count")
    if isinstance(count, int) and count < 1:
        yield ShapeProblem(("count",), f"is {count}; run at least one task")
    for key, most in (("placementStrategy", MOST_STRATEGIES), ("placementConstraints", MOST_CONSTRAINTS)):
        if len(request.get(key) or []) > most:
            yield ShapeProblem((key,), f"holds more than {most} entries")
    if str(request.get("group", "")).startswith(GROUP_OF_SERVICES):
        yield ShapeProblem(
            ("group",), f"may not begin with {GROUP_OF_SERVICES}, which ECS keeps for services"
        )
