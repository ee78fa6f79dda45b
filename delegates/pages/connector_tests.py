"""Page parts that test a connector and show the test's progress."""

import uuid

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.aws import parse_aws_spec
from connectors.usages import count_connector_usages
from delegates.access.aws_access import ConnectorUnavailable
from delegates.access.connector_tests import run_connector_test
from delegates.access.lookup_requests import create_lookup_request
from delegates.models import LookupRequest
from web.forms.pages import PageRequest, get_visible, require_sign_in


@require_sign_in
@require_POST
def start_connector_test(request: PageRequest, pk: int) -> HttpResponse:
    """Test a connector, and render its list row or its last test again."""
    connector = _get_connector(request, pk)
    if parse_aws_spec(connector.spec).is_remote:
        return _start_test(request, connector)
    tested = run_connector_test(actor=request.user, connector=connector)
    if request.headers.get("HX-Request"):
        return _render_part(request, connector)
    level = messages.SUCCESS if tested.ok else messages.ERROR
    messages.add_message(request, level, f"{connector.name}: {tested.message}")
    return redirect("connector", pk=pk)


@require_sign_in
@require_safe
def show_connector_test(request: PageRequest, pk: int, inquiry: uuid.UUID) -> HttpResponse:
    """Show the progress of a test through a delegate; the page refreshes until it is finished."""
    connector = _get_connector(request, pk)
    require_access(request.user, get_connector_requirements(connector))
    lookup = LookupRequest.objects.filter(pk=inquiry, connector=connector).select_related("task").first()
    if lookup is None:
        raise Http404
    if not request.headers.get("HX-Request"):
        return redirect("connector", pk=pk)
    return _render_part(request, connector, lookup)


def _start_test(request: PageRequest, connector: Connector) -> HttpResponse:
    try:
        lookup = create_lookup_request(actor=request.user, connector=connector, kind=LookupRequest.Kind.TEST)
    except ConnectorUnavailable as closed:
        if request.headers.get("HX-Request"):
            return _render_part(request, connector, refusal=str(closed))
        messages.error(request, f"{connector.name}: {closed}")
        return redirect("connector", pk=connector.pk)
    if request.headers.get("HX-Request"):
        return _render_part(request, connector, lookup)
    messages.info(request, f"{connector.name} is being tested through a delegate.")
    return redirect("connector", pk=connector.pk)


def _render_part(
    request: PageRequest, connector: Connector, lookup: LookupRequest | None = None, refusal: str = ""
) -> HttpResponse:
    pending = lookup if lookup is not None and lookup.finished_at is None else None
    if request.headers.get("HX-Target") == "last-test":
        content = {"connector": connector, "can_test": True, "waits": pending, "refusal": refusal}
        return render(request, "connectors/parts/_last_test.html", content)
    content = {
        "connector": connector,
        "usage": count_connector_usages([connector])[connector.pk],
        "testable": {connector.pk},
        "waits": pending,
        "refusal": refusal,
    }
    return render(request, "connectors/parts/_connector.html", content)


def _get_connector(request: PageRequest, pk: int) -> Connector:
    connectors = Connector.objects.select_related("scope", "secret")
    return get_visible(request, "core_connector_view", connectors, pk=pk)
