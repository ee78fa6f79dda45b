"""The pages of service instances: what runs, what stopped and why, and how fresh that is."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Environment, Infrastructure, Service
from deployments.models import Execution
from inventory.models.instances import ServiceInstance
from inventory.sync import operations, queries
from inventory.sync.finding import narrowing
from inventory.sync.pictures import pictures
from inventory.sync.pruning import STOPPED_KEPT
from rbac.policy import visible_to
from web.clock import database_now
from web.lists import granted, topics_here, visible_on_long_list
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import BadInput, Conflict

LIVE, STOPPED = "", "stopped"
CHOICES: Final = ((LIVE, "Running"), (STOPPED, "Stopped"))
NARROWED: Final = ("environment", "origin", "q")
MOST_CHOICES: Final = 200
VIEW_PIPELINE: Final = "core_pipeline_view"


@page
@require_safe
def instances(request: PageRequest) -> HttpResponse:
    """This will list the service instances of the chosen scope, newest first."""
    # Who sees an environment sees what runs there: asked once for the list and all that stands around it.
    here = _environments(request)
    running = ServiceInstance.objects.filter(seen__infrastructure__environment__in=list(here))
    found = queries.with_places(running.filter(stopped_at__isnull=not _is_stopped(request)))
    places = Infrastructure.objects.filter(environment__in=list(here))
    return _shown(request, found, places, here, service=None)


@page
@require_safe
def instances_of_service(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the service instances of one service, newest first."""
    service = get_visible(request, queries.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
    found = queries.instances_of(request.user, service, stopped=_is_stopped(request))
    used = Infrastructure.objects.filter(seen__service=service).distinct()
    places = visible_to(request.user, queries.VIEW_ENVIRONMENT, used)
    return _shown(request, found, places, _environments(request), service=service)


@page
@require_POST
def sync_now(request: PageRequest, pk: int) -> HttpResponse:
    """This will have the cluster of an infrastructure looked at now, and go back to where that was asked."""
    rows = Infrastructure.objects.select_related("environment__scope", "connector")
    place = get_visible(request, queries.VIEW_ENVIRONMENT, rows, pk=pk)
    try:
        operations.sync_infrastructure(actor=request.user, infrastructure=place)
    except Conflict as problem:
        messages.error(request, problem.detail)
    return redirect(_back(request))


def _back(request: PageRequest) -> str:
    asked = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None) and asked.startswith("/")
    return asked if ours else reverse("instances")


def _is_stopped(request: PageRequest) -> bool:
    return request.GET.get("show") == STOPPED


def _shown(
    request: PageRequest,
    found: QuerySet[ServiceInstance],
    places: QuerySet[Infrastructure],
    environments: Mapping[int, str],
    *,
    service: Service | None,
) -> HttpResponse:
    typed, problem = {name: request.GET.get(name, "") for name in NARROWED}, ""
    try:
        found = found.filter(narrowing(typed))
    except BadInput as bad:
        problem = "; ".join(f"{one['path']} {one['message']}" for one in bad.errors or ())
        found = found.none()
    shown = keyset(found, request, order="created_at")
    context: Mapping[str, Any] = {
        "page": shown,
        "opens": _what_opens(request, shown.items),
        "service": service,
        "topics": topics_here(request, "instances") if service is None else f"instances-of:{service.pk}",
        "choices": CHOICES,
        "chosen": STOPPED if _is_stopped(request) else LIVE,
        "pictures": pictures(request.user, places, database_now()),
        "typed": typed,
        "problem": problem,
        "is_narrowed": any(typed.values()),
        "origins": ServiceInstance.Origin.choices,
        "environments": sorted(set(environments.values()))[:MOST_CHOICES],
        "kept_days": STOPPED_KEPT.days,
    }
    return render(request, "inventory/sync/list.html", context)


def _what_opens(request: PageRequest, rows: Iterable[ServiceInstance]) -> Mapping[str, Any]:
    """The keys of services and executions that the reader may look at; two queries for a list."""
    listed = list(rows)
    services = [one.seen.service for one in listed if one.seen and one.seen.service]
    executions = [one.execution for one in listed if one.execution]
    return {
        "services": granted(request, queries.VIEW_SERVICE, Service, services),
        "executions": granted(request, VIEW_PIPELINE, Execution, executions),
    }


def _environments(request: PageRequest) -> dict[int, str]:
    """The environments that the reader sees in the chosen scope: their identifiers by key."""
    rows = visible_on_long_list(request, queries.VIEW_ENVIRONMENT, Environment.objects.all())
    return dict(rows.values_list("pk", "identifier"))
