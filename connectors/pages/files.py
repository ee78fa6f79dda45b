"""Pages of the file store: tree, folder, file, history, download."""

from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from connectors.file_store import build_reference
from connectors.models import FileNode, FileVersion
from connectors.queries import list_folder_contents
from connectors.usages import find_usages
from rbac.policy import NotVisible, build_below_filter, can, can_anywhere, filter_visible, get_permissions
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.http.pagination import paginate_queryset
from web.text_diffs import compare_texts

VIEW_PERMISSION: Final = "core_file_view"
EDIT_PERMISSION: Final = "core_file_edit"
# A tree is drawn whole; a file store larger than this is read through the API.
MOST_FILES: Final = 1000


def list_visible_nodes(request: PageRequest) -> QuerySet[FileNode]:
    """Return the visible files and folders of the current scope, those above it and those below it."""
    scope = request.current_scope
    rows = FileNode.objects.select_related("scope", "updated_by")
    if scope is None:
        return rows.none()
    near = Q(scope__path__in=scope.ancestor_paths()) | build_below_filter(scope)
    return filter_visible(request.user, VIEW_PERMISSION, rows).filter(near)


def get_node(request: PageRequest, pk: int | str, **lookup: Any) -> FileNode:
    """Return a visible file or folder. Raises `NotVisible` (404)."""
    return get_visible(
        request, VIEW_PERMISSION, FileNode.objects.select_related("scope", "updated_by"), pk=pk, **lookup
    )


@require_sign_in
@require_safe
def show_file_store(request: PageRequest) -> HttpResponse:
    """Show the tree of the file store."""
    return render(request, "connectors/files/store.html", _build_tree(request))


@require_sign_in
@require_safe
def show_file(request: PageRequest, pk: int) -> HttpResponse:
    """Show the tree, and one file with its text or one folder with its content."""
    node = get_node(request, pk)
    scope = request.current_scope or node.scope
    is_above = node.scope.path in scope.ancestor_paths()
    content = {
        "chosen": node,
        "reference": build_reference(node, scope) if is_above else node.path,
        "uses": find_usages(node, request.user),
        "rights": get_permissions(request.user, node),
        "can_move": can(request.user, EDIT_PERMISSION, node.scope),
    }
    if node.is_folder:
        content["held"] = list_folder_contents(node.scope, node.path).select_related("updated_by")[
            :MOST_FILES
        ]
    return render(request, "connectors/files/store.html", _build_tree(request, node) | content)


@require_sign_in
@require_safe
def download_file(request: PageRequest, pk: int) -> HttpResponse:
    """Return a file, or an earlier version of it, as a download."""
    node = get_node(request, pk, is_folder=False)
    number = request.GET.get("version")
    text = _get_version(request, node, number).content if number else node.content
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=node.name)
    return response


@require_sign_in
@require_safe
def show_file_history(request: PageRequest, pk: int) -> HttpResponse:
    """List the versions of a file, and show one of them or the difference of two."""
    node = get_node(request, pk, is_folder=False)
    rows = FileVersion.objects.filter(node=node).defer("content").select_related("by")
    content: dict[str, Any] = {
        "node": node,
        "page": paginate_queryset(rows, request, order="version"),
        "can_edit": can(request.user, EDIT_PERMISSION, node),
    }
    if version := request.GET.get("show"):
        content["shown"] = _get_version(request, node, version)
    elif node.version > 1 or "from" in request.GET:
        newer = _get_version(request, node, request.GET.get("to") or str(node.version))
        older = _get_version(request, node, request.GET.get("from") or str(newer.version - 1))
        content |= {"older": older, "newer": newer, "diff": compare_texts(older.content, newer.content)}
    return render(request, "connectors/files/history.html", content)


def _get_version(request: PageRequest, node: FileNode, number: str) -> FileVersion:
    if not (number.isascii() and number.isdigit()):
        raise NotVisible("The version must be a number.")
    rows = FileVersion.objects.select_related("by", "node__scope")
    return get_visible(request, VIEW_PERMISSION, rows, node=node, version=number)


def _build_tree(request: PageRequest, chosen: FileNode | None = None) -> dict[str, Any]:
    visible = list_visible_nodes(request)
    if chosen is not None:
        # A link from another page still shows the file's position in the tree.
        archived = FileNode.objects.filter(scope=chosen.scope).select_related("scope", "updated_by")
        visible = visible | filter_visible(request.user, VIEW_PERMISSION, archived)
    nodes = list(visible.defer("content").order_by("scope__path", "path")[: MOST_FILES + 1])
    return {
        "nodes": sorted(nodes[:MOST_FILES], key=lambda node: (node.scope.path, node.path.split("/"))),
        "is_cut": len(nodes) > MOST_FILES,
        "can_add": can_anywhere(request.user, EDIT_PERMISSION),
    }
