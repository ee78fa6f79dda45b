"""The search for events of ECS services."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalog.models import Service
from inventory.dashboards.events import LONGEST, Search, found_events, search_of
from inventory.models.instances import SeenEvent
from web.lists import granted
from web.pages import PageRequest, page
from web.paging import Page, keyset
from web.problems import BadInput

WORDS: Final = (
    ("hour", "Last hour"),
    ("day", "Last day"),
    ("week", "Last week"),
    ("month", "Last month"),
    ("all", "All that is kept"),
)


@page
@require_safe
def events(request: PageRequest) -> HttpResponse:
    """This will list what ECS said in the chosen scope, newest first, as far as a search means it."""
    problem, search = "", Search()
    try:
        search = search_of(request.GET.dict())
        rows = found_events(request.user, request.current_scope, search, timezone.now())
    except BadInput as bad:
        problem = " ".join(f"{one['path']}: {one['message']}." for one in bad.errors)
        rows = SeenEvent.objects.none()
    shown: Page = keyset(rows, request, order="at")
    services = [one.seen.service for one in shown.items if one.seen.service]
    context = {
        "page": shown,
        "opens": granted(request, "core_service_view", Service, services),
        "search": search,
        "typed": {
            name: request.GET.get(name, "") for name in ("q", "service", "environment", "account", "region")
        },
        "ranges": WORDS,
        "longest": LONGEST,
        "problem": problem,
    }
    return render(request, "inventory/dashboards/events.html", context, status=400 if problem else 200)
