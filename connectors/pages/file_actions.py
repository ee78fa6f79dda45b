"""Pages of file actions: create folder, upload, move, delete."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods

from connectors.file_store import filter_folder_contents
from connectors.forms.files import DeleteFileForm, MoveFileForm, NewFolderForm, UploadFilesForm
from connectors.models import FileNode
from connectors.operations import create_folder, delete_file, move_file, save_file
from connectors.operations.file_deletions import DELETED_FILE_DAYS
from connectors.pages.files import EDIT_PERMISSION, get_node
from connectors.usages import ResourceUsages, find_usages
from rbac.models import Scope, User
from rbac.policy import require
from web.forms.page_forms import ConfirmForm, PageForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import DeletePage, ResourcePage
from web.http.problems import BadInput, Problem, VersionConflict

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
DELETE_PERMISSION: Final = "core_file_delete"


class FilePage(ResourcePage[FileNode]):
    """A page about a file or folder."""

    load = staticmethod(get_node)
    parents = (("Files", "files"),)
    detail = "file"

    def get_name(self) -> str:
        return self.object.path

    def get_noun(self) -> str:
        return "folder" if self.object.is_folder else "file"


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_folder(request: PageRequest) -> HttpResponse:
    """Make a folder."""
    initial = {"in_scope": request.GET.get("in", ""), "path": request.GET.get("path", "")}
    form = NewFolderForm(
        get_posted_data(request),
        person=request.user,
        scope=request.current_scope,
        initial=_remove_empty(initial),
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            node = create_folder(actor=request.user, scope=given["in_scope"], path=given["path"])
        except Problem as problem:
            form.add_problem(problem)
        else:
            return redirect("file", pk=node.pk)
    return _render_form(request, form, "folder")


@require_sign_in
@require_http_methods(GET_OR_POST)
def upload_files(request: PageRequest) -> HttpResponse:
    """Save files from the person's machine: all of them, or none if one is refused."""
    initial = {"in_scope": request.GET.get("in", ""), "folder": request.GET.get("path", "")}
    form = UploadFilesForm(
        get_posted_data(request),
        request.FILES if request.method == "POST" else None,
        person=request.user,
        scope=request.current_scope,
        initial=_remove_empty(initial),
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            saved = _save_uploads(
                request.user, given["in_scope"], given["folder"], given["uploaded"], replace=given["replace"]
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            what = saved[0].path if len(saved) == 1 else f"{len(saved)} files"
            messages.success(request, f"Uploaded {what}.")
            return redirect("file", pk=saved[0].pk)
    return _render_form(request, form, "upload")


@require_sign_in
@require_http_methods(GET_OR_POST)
def move_node(request: PageRequest, pk: int) -> HttpResponse:
    """Rename or move a file or folder, once it is clear who would miss it."""
    node = get_node(request, pk)
    require(request.user, EDIT_PERMISSION, node)
    form = MoveFileForm(get_posted_data(request), initial={"path": node.path})
    if request.method == "POST" and form.is_valid():
        given, old = form.cleaned_data, node.path
        try:
            move_file(actor=request.user, node=node, path=given["path"], although_used=given["although_used"])
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{old} is {node.path} now.")
            return redirect("file", pk=pk)
    content = {"form": form, "node": node, "uses": find_usages(node, request.user)}
    return render(request, "connectors/files/move.html", content, status=form.http_status)


class DeleteFile(FilePage, DeletePage[FileNode]):
    """Delete a file or folder, with its content only if that is accepted."""

    permission = DELETE_PERMISSION
    form_class = DeleteFileForm
    done = '{name} is deleted. <a href="{undo}">Restore</a>'
    usage_title = "Something still refers to it"
    usage_advice = "Their next deployment fails until they refer to something else."
    although_used = "Delete even though references to it will break"

    @cached_property
    def content_count(self) -> int:
        """Return how many files and folders are in the folder."""
        rows = FileNode.objects.filter(scope=self.object.scope)
        return filter_folder_contents(rows, self.object.path).count() if self.object.is_folder else 0

    def get_usages(self) -> ResourceUsages:
        return find_usages(self.object, self.request.user)

    def get_texts(self) -> list[str]:
        node, count = self.object, self.content_count
        if not node.is_folder:
            text = f"The file is deleted with its {node.version} version{pluralize(node.version)}."
        elif count:
            text = f"The folder is deleted, and with it {count} file{pluralize(count)} and folders in it."
        else:
            text = "The folder is deleted."
        return [f"{text} It can be restored for {DELETED_FILE_DAYS} days."]

    def build_form(self) -> ConfirmForm:
        form = super().build_form()
        if not self.content_count:
            del form.fields["with_content"]
        return form

    def perform(self, **given: Any) -> None:
        delete_file(actor=self.request.user, node=self.object, **given)

    def get_done_message(self, name: str) -> str:
        return format_html(self.done, name=name, undo=reverse("deleted-files"))


def _save_uploads(
    actor: User, scope: Scope, folder: str, files: Sequence[UploadedFile], *, replace: bool
) -> list[FileNode]:
    with transaction.atomic():
        return [_save_upload(actor, scope, folder, one, replace=replace) for one in files]


def _save_upload(actor: User, scope: Scope, folder: str, file: UploadedFile, *, replace: bool) -> FileNode:
    path = f"{folder.rstrip('/')}/{file.name}"
    try:
        content = file.read().decode("utf-8-sig")
        return save_file(
            actor=actor,
            scope=scope,
            path=path,
            content=content,
            note="Uploaded",
            expected_version=None if replace else 0,
        )
    except UnicodeDecodeError as exc:
        message = f"{file.name} is not UTF-8 text: byte {exc.start + 1} is not valid."
    except VersionConflict:
        message = f"There is already a file {path}. Choose to replace it, or rename yours."
    except BadInput as problem:
        message = f"{file.name}: {problem.detail}"
    raise BadInput(message, errors=[{"path": "uploaded", "message": message}])


def _remove_empty(initial: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in initial.items() if value}


def _render_form(request: PageRequest, form: PageForm, name: str) -> HttpResponse:
    return render(request, f"connectors/files/{name}.html", {"form": form}, status=form.http_status)
