"""Pages of deleted files: list, restore, purge."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from connectors.models import FileDeletion
from connectors.operations import purge_deletion, undelete_files
from connectors.operations.file_deletions import DELETED_FILE_DAYS
from connectors.pages.files import EDIT_PERMISSION, VIEW_PERMISSION
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, list_visible, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import Problem


@require_sign_in
@require_safe
def list_deletions(request: PageRequest) -> HttpResponse:
    """List the deletions that can still be undone."""
    rows = FileDeletion.objects.select_related("scope", "by")
    page = paginate_queryset(list_visible(request, VIEW_PERMISSION, rows), request)
    content = {
        "page": page,
        "restorable": get_permitted_ids(request, EDIT_PERMISSION, FileDeletion, page.items),
        "forgettable": get_permitted_ids(request, "core_file_delete", FileDeletion, page.items),
        "days": DELETED_FILE_DAYS,
    }
    return render(request, "connectors/files/deleted.html", content)


@require_sign_in
@require_POST
def restore_deleted_file(request: PageRequest, pk: int) -> HttpResponse:
    """Undo one deletion."""
    try:
        node = undelete_files(actor=request.user, deletion=_get_deletion(request, pk))
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("deleted-files")
    messages.success(request, f"{node.path} is restored with its history.")
    return redirect("file", pk=node.pk)


@require_sign_in
@require_POST
def purge_deleted_file(request: PageRequest, pk: int) -> HttpResponse:
    """Purge the files of one deletion permanently."""
    deletion = _get_deletion(request, pk)
    purge_deletion(actor=request.user, deletion=deletion)
    messages.success(request, f"{deletion.path} is deleted permanently.")
    return redirect("deleted-files")


def _get_deletion(request: PageRequest, pk: int) -> FileDeletion:
    return get_visible(request, VIEW_PERMISSION, FileDeletion.objects.select_related("scope"), pk=pk)
