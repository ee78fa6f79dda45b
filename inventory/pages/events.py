"""Page that searches for events of ECS services."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalog.models import Service
from inventory.models.instances import EcsServiceEvent
from inventory.queries.events import MAX_SEARCH_LENGTH, EventSearch, parse_event_search, search_events
from web.forms.pages import PageRequest, get_permitted_ids, require_sign_in
from web.http.pagination import Page, paginate_queryset
from web.http.problems import BadInput

TIME_RANGE_LABELS: Final = (
    ("hour", "Last hour"),
    ("day", "Last day"),
    ("week", "Last week"),
    ("month", "Last month"),
    ("all", "All time"),
)


@require_sign_in
@require_safe
def list_events(request: PageRequest) -> HttpResponse:
    """List the matching events of the chosen scope, newest first."""
    problem, search = "", EventSearch()
    try:
        search = parse_event_search(request.GET.dict())
        rows = search_events(request.user, request.current_scope, search, timezone.now())
    except BadInput as error:
        problem = " ".join(f"{item['path']}: {item['message']}." for item in error.errors)
        rows = EcsServiceEvent.objects.none()
    page: Page = paginate_queryset(rows, request, order="at")
    services = [item.ecs_service.service for item in page.items if item.ecs_service.service]
    context = {
        "page": page,
        "opens": get_permitted_ids(request, "core_service_view", Service, services),
        "search": search,
        "typed": {
            name: request.GET.get(name, "") for name in ("q", "service", "environment", "account", "region")
        },
        "ranges": TIME_RANGE_LABELS,
        "longest": MAX_SEARCH_LENGTH,
        "problem": problem,
    }
    return render(request, "inventory/dashboards/events.html", context, status=400 if problem else 200)
