"""What pages ask of a door: whether a connector works."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from connectors.models import Connector
from delegates.connector_tests import try_connector
from web.pages import PageRequest, get_visible, page


@page
@require_POST
def test(request: PageRequest, pk: int) -> HttpResponse:
    """This will test a connector and show its row of the list, or its last test, anew."""
    connectors = Connector.objects.select_related("scope", "secret")
    found = get_visible(request, "core_connector_view", connectors, pk=pk)
    tested = try_connector(actor=request.user, connector=found)
    if request.headers.get("HX-Target") == "last-test":
        content = {"connector": found, "can_test": True}
        return render(request, "connectors/parts/_last_test.html", content)
    if request.headers.get("HX-Request"):
        return render(request, "connectors/parts/_connector.html", {"connector": found, "testable": {pk}})
    level = messages.SUCCESS if tested.ok else messages.ERROR
    messages.add_message(request, level, f"{found.name}: {tested.message}")
    return redirect("connector", pk=pk)
