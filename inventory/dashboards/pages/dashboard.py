"""The dashboard of one service: what runs where, what is being deployed, what was, and the way back."""

from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from catalog.models import Service
from deployments.models import StageExecution
from inventory.dashboards import operations
from inventory.dashboards.differences import difference
from inventory.dashboards.history import active, deployments_of, latest_of, newest_events
from inventory.dashboards.running import places_of
from inventory.sync.looks import note_look
from rbac.policy import NotVisible, require
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_service_view"
ROWS: Final = 20
# More than any key has.
MOST_DIGITS: Final = 18


@page
@require_safe
def dashboard(request: PageRequest, pk: int) -> HttpResponse:
    """This will show one service as a whole."""
    service = _service(request, pk)
    deployments = deployments_of(request.user, service)
    shown = keyset(deployments, request, size=ROWS)
    places = places_of(request.user, [service], detailed=True, drawn=True)
    note_look([one.seen for one in places], timezone.now())
    context: dict[str, Any] = {
        "service": service,
        "places": places,
        "active": active(deployments),
        "page": shown,
        "can_return": {one.pk for one in shown.items if operations.can_be_returned_to(one)},
        "events": newest_events(request.user, service),
    }
    return render(request, "inventory/dashboards/dashboard.html", context)


@page
@require_safe
def compare(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what differs between two deployments of a service."""
    service = _service(request, pk)
    deployments = deployments_of(request.user, service)
    old, new = (_deployment(deployments, request.GET.get(name, "")) for name in ("from", "to"))
    context = {"service": service, "found": difference(old, new) if old and new else None}
    return render(request, "inventory/dashboards/compare.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def return_to_deployment(request: PageRequest, pk: int, deployment: int) -> HttpResponse:
    """This will ask before a deployment is deployed again, and show what that changes."""
    service = _service(request, pk)
    deployments = deployments_of(request.user, service)
    target = _deployment(deployments, str(deployment))
    if target is None:
        raise NotVisible("There is no such deployment of this service.")
    require(request.user, "core_pipeline_execute", target.execution.pipeline)
    problem = ""
    if request.method == "POST":
        try:
            begun = operations.return_to(actor=request.user, deployment=target)
        except Problem as refused:
            problem = refused.detail
        else:
            return redirect("execution", pk=begun.pk)
    now = latest_of(deployments, target)
    context = {
        "service": service,
        "target": target,
        "now": now,
        "found": difference(now, target) if now and now.pk != target.pk else None,
        "others": [one.values for one in target.execution.stages.all() if one.pk != target.pk],
        "can": operations.can_be_returned_to(target),
        "problem": problem,
    }
    return render(request, "inventory/dashboards/return.html", context, status=409 if problem else 200)


def _service(request: PageRequest, pk: int) -> Service:
    return get_visible(request, VIEW, Service.objects.select_related("scope", "artifact"), pk=pk)


def _deployment(deployments: QuerySet[StageExecution], asked: str) -> StageExecution | None:
    if not (asked.isascii() and asked.isdigit() and len(asked) <= MOST_DIGITS):
        return None
    return deployments.filter(pk=int(asked)).first()
