"""Filters of rules: by service, environment, pipeline and outcome; an empty filter matches everything."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from guards.limits import NAME_CHARACTERS, NOTIFICATION_FILTER_NAMES
from guards.text import find_name_problem
from notifications.events import OUTCOMES, NotificationEvent

Filters = Mapping[str, Collection[str]]

# The values of an event that each filter compares.
_FILTER_VALUES: Final[Mapping[str, Callable[[NotificationEvent], tuple[str, ...]]]] = {
    "services": lambda fact: fact.services,
    "environments": lambda fact: fact.environments,
    "pipelines": lambda fact: (fact.pipeline,),
    "outcomes": lambda fact: (fact.status,),
}
FILTER_NAMES: Final = tuple(_FILTER_VALUES)


def matches_filters(filters: Filters, fact: NotificationEvent) -> bool:
    """Return whether an event has a value of every filter that is not empty."""
    return all(
        not filters.get(name) or not set(filters[name]).isdisjoint(get_values(fact))
        for name, get_values in _FILTER_VALUES.items()
    )


def build_filters(filters: Filters) -> dict[str, list[str]]:
    """Return the filters that are not empty, each value once."""
    return {name: list(dict.fromkeys(filters[name])) for name in FILTER_NAMES if filters.get(name)}


def list_filter_problems(filters: Filters) -> Iterator[dict[str, str]]:
    """Yield an error for each filter with values that no event has."""
    for name in sorted(set(filters) - set(FILTER_NAMES)):
        yield {"path": f"filters.{name[:64]}", "message": f"Known filters: {', '.join(FILTER_NAMES)}."}
    for name in FILTER_NAMES:
        values = filters.get(name, ())
        if len(values) > NOTIFICATION_FILTER_NAMES or any(
            find_name_problem(value, NAME_CHARACTERS) for value in values
        ):
            yield {
                "path": f"filters.{name}",
                "message": f"Enter at most {NOTIFICATION_FILTER_NAMES} identifiers.",
            }
    known = dict(OUTCOMES)
    if unknown := sorted(set(filters.get("outcomes", ())) - known.keys()):
        message = f"Unknown outcome {unknown[0][:64]}. Known outcomes: {', '.join(known)}."
        yield {"path": "filters.outcomes", "message": message}
