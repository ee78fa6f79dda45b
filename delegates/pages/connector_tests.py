"""What pages ask of a door: whether a connector works."""

import uuid

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from connectors.aws_accounts import read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.connector_tests import try_connector
from delegates.doors import DoorClosed
from delegates.inquiries import ask
from delegates.models import Inquiry
from web.pages import PageRequest, get_visible, page


@page
@require_POST
def test(request: PageRequest, pk: int) -> HttpResponse:
    """This will test a connector and show its row of the list, or its last test, anew."""
    found = _connector(request, pk)
    if read_spec(found.spec).is_remote:
        return _ask(request, found)
    tested = try_connector(actor=request.user, connector=found)
    if request.headers.get("HX-Request"):
        return _part(request, found)
    level = messages.SUCCESS if tested.ok else messages.ERROR
    messages.add_message(request, level, f"{found.name}: {tested.message}")
    return redirect("connector", pk=pk)


@page
@require_safe
def under_way(request: PageRequest, pk: int, inquiry: uuid.UUID) -> HttpResponse:
    """This will show how far a test through a delegate has come, and ask again until it is finished."""
    found = _connector(request, pk)
    refuse_lacking(request.user, needs_of_connector(found))
    asked = Inquiry.objects.filter(pk=inquiry, connector=found).select_related("task").first()
    if asked is None:
        raise Http404
    if not request.headers.get("HX-Request"):
        return redirect("connector", pk=pk)
    return _part(request, found, asked)


def _ask(request: PageRequest, connector: Connector) -> HttpResponse:
    try:
        asked = ask(actor=request.user, connector=connector, kind=Inquiry.Kind.TEST)
    except DoorClosed as closed:
        messages.error(request, f"{connector.name}: {closed}")
        return redirect("connector", pk=connector.pk)
    if request.headers.get("HX-Request"):
        return _part(request, connector, asked)
    messages.info(request, f"{connector.name} is being tested through a delegate.")
    return redirect("connector", pk=connector.pk)


def _part(request: PageRequest, connector: Connector, asked: Inquiry | None = None) -> HttpResponse:
    waits = asked if asked is not None and asked.finished_at is None else None
    if request.headers.get("HX-Target") == "last-test":
        content = {"connector": connector, "can_test": True, "waits": waits}
        return render(request, "connectors/parts/_last_test.html", content)
    content = {"connector": connector, "testable": {connector.pk}, "waits": waits}
    return render(request, "connectors/parts/_connector.html", content)


def _connector(request: PageRequest, pk: int) -> Connector:
    connectors = Connector.objects.select_related("scope", "secret")
    return get_visible(request, "core_connector_view", connectors, pk=pk)
