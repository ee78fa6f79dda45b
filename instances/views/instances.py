"""The page of service instances: what runs, what stopped and why, in one scope or of one service."""

from typing import Final

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from deployments.models import Service
from instances import queries
from instances.models import ServiceInstance, SyncedCluster
from web.lists import visible_here
from web.pages import PageRequest, get_visible, page
from web.paging import keyset

LIVE, STOPPED = "", "stopped"
CHOICES: Final = ((LIVE, "Running"), (STOPPED, "Stopped"))


@page
@require_safe
def instances(request: PageRequest) -> HttpResponse:
    """This will list the service instances of the chosen scope, newest first."""
    stopped = request.GET.get("show") == STOPPED
    rows = ServiceInstance.objects.filter(stopped_at__isnull=not stopped)
    found = visible_here(request, queries.VIEW_ENVIRONMENT, queries.with_places(rows))
    return _shown(request, found, stopped=stopped, service=None)


@page
@require_safe
def instances_of_service(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the service instances of one service, newest first."""
    service = get_visible(request, queries.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
    stopped = request.GET.get("show") == STOPPED
    found = queries.instances_of(request.user, service, stopped=stopped)
    return _shown(request, found, stopped=stopped, service=service)


def _shown(
    request: PageRequest, found: QuerySet[ServiceInstance], *, stopped: bool, service: Service | None
) -> HttpResponse:
    shown = keyset(found, request, order="created_at")
    keys = {row.cluster_id for row in shown.items}
    clusters = SyncedCluster.objects.filter(pk__in=keys).order_by("synced_at")
    context = {
        "page": shown,
        "service": service,
        "choices": CHOICES,
        "chosen": STOPPED if stopped else LIVE,
        "clusters": clusters,
    }
    return render(request, "instances/list.html", context)
