"""Pages of deleted files: list, restore, purge."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.views.decorators.http import require_POST, require_safe

from connectors.models import FileDeletion, FileNode
from connectors.operations import purge_deletion, undelete_files
from connectors.operations.file_deletions import DELETED_FILE_DAYS
from connectors.pages.file_actions import DELETE_PERMISSION
from connectors.pages.files import EDIT_PERMISSION, VIEW_PERMISSION
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import ConfirmPage
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
        "forgettable": get_permitted_ids(request, DELETE_PERMISSION, FileDeletion, page.items),
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


def _get_deletion(request: PageRequest, pk: int) -> FileDeletion:
    return get_visible(request, VIEW_PERMISSION, FileDeletion.objects.select_related("scope"), pk=pk)


class PurgeDeletion(ConfirmPage[FileDeletion]):
    """Delete the files of one deletion permanently."""

    load = staticmethod(_get_deletion)
    permission = DELETE_PERMISSION
    parents = (("Files", "files"), ("Deleted", "deleted-files"))
    verb = "Permanently delete"
    done = "{name} is deleted permanently."

    def get_name(self) -> str:
        return self.object.path

    def get_noun(self) -> str:
        return "folder" if self.object.is_folder else "file"

    def get_texts(self) -> list[str]:
        if not self.object.is_folder:
            return ["The file is deleted with all its versions. It cannot be restored."]
        count = FileNode.with_deleted.filter(deletion=self.object).count() - 1
        content = f" with {count} file{pluralize(count, ' or folder,s and folders')} in it" if count else ""
        return [f"The folder is deleted{content}, and with all versions. It cannot be restored."]

    def perform(self, **values: Any) -> None:
        purge_deletion(actor=self.request.user, deletion=self.object)
