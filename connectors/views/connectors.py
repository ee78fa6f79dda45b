"""Pages of connectors."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from connectors.models import Connector
from web.lists import granted, visible_here
from web.pages import PageRequest, page
from web.paging import keyset

VIEW: Final = "core_connector_view"
ACCESS: Final = "core_connector_access"


@page
@require_safe
def connectors(request: PageRequest) -> HttpResponse:
    """This will list connectors with the result of their last test."""
    found = visible_here(request, VIEW, Connector.objects.select_related("scope", "secret"))
    shown = keyset(found, request)
    testable = granted(request, ACCESS, Connector, shown.items)
    return render(request, "connectors/connectors.html", {"page": shown, "testable": testable})
