"""What runs where: services by environments, with their versions."""

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Service
from guards.limits import NAME_CHARACTERS
from guards.text import clean
from inventory.dashboards.matrix import matrix
from web.lists import visible_here
from web.pages import PageRequest, page
from web.paging import keyset


@page
@require_safe
def what_runs_where(request: PageRequest) -> HttpResponse:
    """This will show the services of the chosen scope beside their environments."""
    services = visible_here(request, "core_service_view", Service.objects.select_related("scope"))
    typed = clean(request.GET.get("q", "")).strip()[: int(NAME_CHARACTERS)]
    if typed:
        services = services.filter(Q(name__icontains=typed) | Q(identifier__icontains=typed))
    shown = keyset(services, request)
    context = {"page": shown, "matrix": matrix(request.user, shown.items), "typed": typed}
    return render(request, "inventory/dashboards/matrix.html", context)
