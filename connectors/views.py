"""Pages of connectors and of the file store."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from connectors.models import Connector, FileNode
from web.lists import granted, visible_here
from web.pages import PageRequest, get_visible, page
from web.paging import keyset

VIEW: Final = "core_connector_view"
ACCESS: Final = "core_connector_access"
VIEW_FILE: Final = "core_file_view"
# A tree is drawn whole; a file store larger than this is read through the API.
MOST_FILES: Final = 1000


@page
@require_safe
def connectors(request: PageRequest) -> HttpResponse:
    """This will list connectors with the result of their last test."""
    found = visible_here(request, VIEW, Connector.objects.select_related("scope", "secret"))
    shown = keyset(found, request)
    testable = granted(request, ACCESS, Connector, shown.items)
    return render(request, "connectors/connectors.html", {"page": shown, "testable": testable})


@page
@require_safe
def files(request: PageRequest) -> HttpResponse:
    """This will show the file store as a tree, and the content of the file that was chosen."""
    found = visible_here(request, VIEW_FILE, FileNode.objects.select_related("scope", "updated_by"))
    nodes = list(found.defer("content").order_by("scope__path", "path")[:MOST_FILES])
    chosen = None
    if asked := request.GET.get("file"):
        chosen = get_visible(request, VIEW_FILE, found, pk=asked, is_folder=False)
    return render(request, "connectors/files.html", {"nodes": nodes, "chosen": chosen})
