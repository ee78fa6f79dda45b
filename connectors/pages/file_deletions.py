"""Pages of what was deleted from the file store: having it back, or letting go of it for ever."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from connectors.models import FileDeletion
from connectors.operations import forget_deletion, undelete_files
from connectors.operations.file_deletions import KEPT_DAYS
from connectors.pages.files import EDIT, VIEW
from web.lists import granted, visible_here
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem


@page
@require_safe
def deletions(request: PageRequest) -> HttpResponse:
    """This will list what was deleted and can still be had back."""
    rows = FileDeletion.objects.select_related("scope", "by")
    shown = keyset(visible_here(request, VIEW, rows), request)
    content = {
        "page": shown,
        "restorable": granted(request, EDIT, FileDeletion, shown.items),
        "forgettable": granted(request, "core_file_delete", FileDeletion, shown.items),
        "days": KEPT_DAYS,
    }
    return render(request, "connectors/files/deleted.html", content)


@page
@require_POST
def undo(request: PageRequest, pk: int) -> HttpResponse:
    """This will put back what one deletion took."""
    try:
        node = undelete_files(actor=request.user, deletion=_found(request, pk))
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("deleted-files")
    messages.success(request, f"{node.path} is back, with its history.")
    return redirect("file", pk=node.pk)


@page
@require_POST
def forget(request: PageRequest, pk: int) -> HttpResponse:
    """This will let go of what one deletion took, for ever."""
    found = _found(request, pk)
    forget_deletion(actor=request.user, deletion=found)
    messages.success(request, f"{found.path} is gone for ever.")
    return redirect("deleted-files")


def _found(request: PageRequest, pk: int) -> FileDeletion:
    return get_visible(request, VIEW, FileDeletion.objects.select_related("scope"), pk=pk)
