"""The search for what ECS and auto scaling said, across services, accounts and time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from guards.text import clean
from inventory.models.instances import SeenEvent
from rbac.models import Scope
from rbac.policy import Principal, visible_below
from web.matching import holds
from web.problems import BadInput

VIEW: Final = "core_environment_view"
SINCE: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
    "all": None,
}
USUAL: Final = "week"
LONGEST: Final = 128


@dataclass(frozen=True)
class Search:
    """What is looked for; an empty text asks for nothing in particular."""

    text: str = ""
    service: str = ""
    environment: str = ""
    account: str = ""
    region: str = ""
    since: str = USUAL

    @property
    def is_narrowed(self) -> bool:
        return any((self.text, self.service, self.environment, self.account, self.region))


def search_of(given: Mapping[str, str]) -> Search:
    """Read a search. Raises `BadInput` that names what is wrong."""
    names = ("text", "service", "environment", "account", "region")
    values = {name: clean(given.get("q" if name == "text" else name, "")).strip() for name in names}
    for name, value in values.items():
        if len(value) > LONGEST:
            path = "q" if name == "text" else name
            errors = [{"path": path, "message": f"is longer than {LONGEST} characters"}]
            raise BadInput("The search is too long.", errors=errors)
    since = given.get("since", "") or USUAL
    if since not in SINCE:
        errors = [{"path": "since", "message": f"must be one of {', '.join(SINCE)}"}]
        raise BadInput("The input is not valid.", errors=errors)
    return Search(**values, since=since)


def found_events(
    principal: Principal, scope: Scope | None, search: Search, now: datetime
) -> QuerySet[SeenEvent]:
    """The events that a search means, in environments that the reader may see; with what a list shows.

    Asks for scopes first, and once.
    """
    rows = SeenEvent.objects.select_related(
        "seen__service", "seen__infrastructure__environment", "seen__cluster"
    ).defer("seen__answered", "seen__targets", "seen__usage")
    if length := SINCE[search.since]:
        rows = rows.filter(at__gte=now - length)
    exact = {
        "seen__service__identifier": search.service,
        "seen__infrastructure__environment__identifier": search.environment,
        "seen__cluster__account": search.account,
        "seen__cluster__region": search.region,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if search.text:
        rows = rows.filter(holds("message", search.text))
    return visible_below(principal, VIEW, rows, scope)
