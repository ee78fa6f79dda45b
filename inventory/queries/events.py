"""Search of ECS and auto scaling events across services, accounts and time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from guards.text import sanitize_text
from inventory.models.instances import EcsServiceEvent
from rbac.models import Scope
from rbac.policy import Principal, filter_visible
from web.http.problems import BadInput
from web.search_filters import contains_text

VIEW_ENVIRONMENT: Final = "core_environment_view"
TIME_RANGES: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
    "all": None,
}
DEFAULT_TIME_RANGE: Final = "week"
MAX_SEARCH_LENGTH: Final = 128


@dataclass(frozen=True)
class EventSearch:
    """The filters of a search; empty ones match everything."""

    text: str = ""
    service: str = ""
    environment: str = ""
    account: str = ""
    region: str = ""
    since: str = DEFAULT_TIME_RANGE

    @property
    def is_narrowed(self) -> bool:
        return any((self.text, self.service, self.environment, self.account, self.region))


def parse_event_search(parameters: Mapping[str, str]) -> EventSearch:
    """Parse a search. Raises `BadInput` with the invalid field."""
    names = ("text", "service", "environment", "account", "region")
    values = {
        name: sanitize_text(parameters.get("q" if name == "text" else name, "")).strip() for name in names
    }
    for name, value in values.items():
        if len(value) > MAX_SEARCH_LENGTH:
            path = "q" if name == "text" else name
            errors = [{"path": path, "message": f"is longer than {MAX_SEARCH_LENGTH} characters"}]
            raise BadInput("The search is too long.", errors=errors)
    since = parameters.get("since", "") or DEFAULT_TIME_RANGE
    if since not in TIME_RANGES:
        errors = [{"path": "since", "message": f"must be one of {', '.join(TIME_RANGES)}"}]
        raise BadInput("The input is not valid.", errors=errors)
    return EventSearch(**values, since=since)


def search_events(
    principal: Principal, scope: Scope | None, search: EventSearch, now: datetime
) -> QuerySet[EcsServiceEvent]:
    """Return the visible events that match a search, with their relations.

    Permissions are loaded once.
    """
    rows = EcsServiceEvent.objects.select_related(
        "ecs_service__service", "ecs_service__infrastructure__environment", "ecs_service__cluster"
    ).defer("ecs_service__description", "ecs_service__targets", "ecs_service__usage")
    if length := TIME_RANGES[search.since]:
        rows = rows.filter(at__gte=now - length)
    exact = {
        "ecs_service__service__identifier": search.service,
        "ecs_service__infrastructure__environment__identifier": search.environment,
        "ecs_service__cluster__account": search.account,
        "ecs_service__cluster__region": search.region,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if search.text:
        rows = rows.filter(contains_text("message", search.text))
    return filter_visible(principal, VIEW_ENVIRONMENT, rows, scope)
