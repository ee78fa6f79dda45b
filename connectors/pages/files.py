"""Pages that show the file store: the tree, a folder, a file, its history, and giving it away."""

from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from connectors.files import reference_of
from connectors.models import FileNode, FileVersion
from connectors.queries import files_in
from connectors.uses import uses_of
from rbac.policy import NotVisible, at_or_below, can, can_anywhere, permissions_at, visible_to
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.text_diff import diff

VIEW: Final = "core_file_view"
EDIT: Final = "core_file_edit"
# A tree is drawn whole; a file store larger than this is read through the API.
MOST_FILES: Final = 1000


def nodes_here(request: PageRequest) -> QuerySet[FileNode]:
    """What the reader may see of the file stores of the chosen scope, of those above it and below it."""
    scope = request.current_scope
    rows = FileNode.objects.select_related("scope", "updated_by")
    if scope is None:
        return rows.none()
    near = Q(scope__path__in=scope.ancestor_paths()) | at_or_below(scope)
    return visible_to(request.user, VIEW, rows).filter(near)


def node_of(request: PageRequest, pk: int, **lookup: Any) -> FileNode:
    """The file or folder that is meant. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, FileNode.objects.select_related("scope", "updated_by"), pk=pk, **lookup)


@page
@require_safe
def files(request: PageRequest) -> HttpResponse:
    """This will show the tree of the file store."""
    return render(request, "connectors/files/store.html", _tree(request))


@page
@require_safe
def file(request: PageRequest, pk: int) -> HttpResponse:
    """This will show the tree and one file with its text, or one folder with what is in it."""
    node = node_of(request, pk)
    scope = request.current_scope or node.scope
    is_above = node.scope.path in scope.ancestor_paths()
    content = {
        "chosen": node,
        "reference": reference_of(node, scope) if is_above else node.path,
        "uses": uses_of(node, request.user),
        "rights": permissions_at(request.user, node),
    }
    if node.is_folder:
        content["held"] = files_in(node.scope, node.path).select_related("updated_by")[:MOST_FILES]
    return render(request, "connectors/files/store.html", _tree(request, node) | content)


@page
@require_safe
def download(request: PageRequest, pk: int) -> HttpResponse:
    """This will give the text of a file, or of an earlier version of it, as a file."""
    node = node_of(request, pk, is_folder=False)
    asked = request.GET.get("version")
    text = _version(request, node, asked).content if asked else node.content
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=node.name)
    return response


@page
@require_safe
def history(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the versions of a file, and show one of them or the difference of two."""
    node = node_of(request, pk, is_folder=False)
    rows = FileVersion.objects.filter(node=node).defer("content").select_related("by")
    content: dict[str, Any] = {
        "node": node,
        "page": keyset(rows, request, order="version"),
        "can_edit": can(request.user, EDIT, node),
    }
    if shown := request.GET.get("show"):
        content["shown"] = _version(request, node, shown)
    elif node.version > 1 or "from" in request.GET:
        newer = _version(request, node, request.GET.get("to") or str(node.version))
        older = _version(request, node, request.GET.get("from") or str(newer.version - 1))
        content |= {"older": older, "newer": newer, "diff": diff(older.content, newer.content)}
    return render(request, "connectors/files/history.html", content)


def _version(request: PageRequest, node: FileNode, number: str) -> FileVersion:
    if not (number.isascii() and number.isdigit()):
        raise NotVisible("A version is a number.")
    rows = FileVersion.objects.select_related("by", "node__scope")
    return get_visible(request, VIEW, rows, node=node, version=int(number))


def _tree(request: PageRequest, chosen: FileNode | None = None) -> dict[str, Any]:
    found = nodes_here(request)
    if chosen is not None:
        # A link from elsewhere still shows where the file lies.
        beside = FileNode.objects.filter(scope=chosen.scope).select_related("scope", "updated_by")
        found = found | visible_to(request.user, VIEW, beside)
    nodes = list(found.defer("content").order_by("scope__path", "path")[: MOST_FILES + 1])
    return {
        "nodes": sorted(nodes[:MOST_FILES], key=lambda node: (node.scope.path, node.path.split("/"))),
        "is_cut": len(nodes) > MOST_FILES,
        "can_add": can_anywhere(request.user, EDIT),
    }
