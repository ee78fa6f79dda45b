"""What pages ask of a door: whether a connector works."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from connectors.models import Connector
from delegates.doors import test_connector
from web.pages import PageRequest, get_visible, page


@page
@require_POST
def test(request: PageRequest, pk: int) -> HttpResponse:
    """This will test a connector and show its row anew."""
    connectors = Connector.objects.select_related("scope", "secret")
    found = get_visible(request, "core_connector_view", connectors, pk=pk)
    tested = test_connector(actor=request.user, connector=found)
    if request.headers.get("HX-Request"):
        return render(request, "connectors/parts/_connector.html", {"connector": found, "testable": {pk}})
    level = messages.SUCCESS if tested.ok else messages.ERROR
    messages.add_message(request, level, f"{found.name}: {tested.message}")
    return redirect("connectors")
