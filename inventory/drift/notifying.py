"""What is told of drift: which ECS service, which fields, who did it as far as AWS tells; never a value."""

from collections.abc import Sequence
from typing import Final

from inventory.models.drift import Comparison, Drift
from notifications.facts import Event, Fact
from web.page_paths import get_page_path

# As many fields as a line of chat has room for.
NAMED: Final = 5


def drift_found(comparison: Comparison, fresh: Sequence[Drift]) -> Fact:
    """These fields of an ECS service are not as they were deployed."""
    names = [f"{row.document} {row.path}".strip() for row in fresh]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    fields = f"{', '.join(names[:NAMED])}{more}"
    text = f"{comparison.seen.name} was changed outside Slipway: {fields}."
    return _fact(Event.DRIFT_FOUND, comparison, text, Comparison.State.DRIFTED, f"{fields}. {fresh[0].told}")


def drift_gone(comparison: Comparison) -> Fact:
    """An ECS service is as it was deployed again."""
    text = f"{comparison.seen.name} is as it was deployed again."
    return _fact(Event.DRIFT_GONE, comparison, text, Comparison.State.IN_STEP, "")


def _fact(event: Event, comparison: Comparison, text: str, status: str, cause: str) -> Fact:
    place = comparison.seen.infrastructure
    environment = place.environment if place is not None else None
    return Fact(
        event=event,
        scope=comparison.scope,
        text=f"{text[:-1]} in {environment.name}." if environment is not None else text,
        path=get_page_path("drift-of-service", comparison.pk),
        status=status,
        cause=cause,
        services=(comparison.seen.name,),
        environments=(environment.identifier,) if environment is not None else (),
    )
