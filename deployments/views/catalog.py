"""Pages of what pipelines refer to: services with manifests, environments with infrastructures."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from deployments.models import Environment, Service
from web.lists import visible_here
from web.pages import PageRequest, get_visible, page
from web.paging import keyset

VIEW_SERVICE: Final = "core_service_view"
VIEW_ENVIRONMENT: Final = "core_environment_view"


@page
@require_safe
def services(request: PageRequest) -> HttpResponse:
    """This will list services."""
    found = visible_here(request, VIEW_SERVICE, Service.objects.select_related("scope", "artifact"))
    shown = keyset(found.prefetch_related("manifests"), request)
    return render(request, "deployments/services.html", {"page": shown})


@page
@require_safe
def service(request: PageRequest, pk: int) -> HttpResponse:
    """This will show a service: its artifact, its manifests, its variables."""
    queryset = Service.objects.select_related("scope", "artifact").prefetch_related("manifests")
    found = get_visible(request, VIEW_SERVICE, queryset, pk=pk)
    return render(request, "deployments/service.html", {"service": found})


@page
@require_safe
def environments(request: PageRequest) -> HttpResponse:
    """This will list environments and the infrastructures that each one holds."""
    found = visible_here(request, VIEW_ENVIRONMENT, Environment.objects.select_related("scope"))
    shown = keyset(found.prefetch_related("infrastructures__connector"), request)
    return render(request, "deployments/environments.html", {"page": shown})
