"""Pages of file actions: create folder, upload, move, delete."""

from collections.abc import Sequence
from typing import Final

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods

from connectors.file_store import filter_folder_contents
from connectors.forms.files import DeleteFileForm, MoveFileForm, NewFolderForm, UploadFilesForm
from connectors.models import FileNode
from connectors.operations import create_folder, delete_file, move_file, save_file
from connectors.pages.files import EDIT_PERMISSION, get_node
from connectors.usages import find_usages
from rbac.models import Scope, User
from rbac.policy import require
from web.forms.page_forms import PageForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.http.problems import BadInput, Problem, VersionConflict

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
DELETE_PERMISSION: Final = "core_file_delete"


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
            form.refuse(problem)
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
            form.refuse(problem)
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
            form.refuse(problem)
        else:
            messages.success(request, f"{old} is {node.path} now.")
            return redirect("file", pk=pk)
    content = {"form": form, "node": node, "uses": find_usages(node, request.user)}
    return render(request, "connectors/files/move.html", content, status=form.http_status)


@require_sign_in
@require_http_methods(GET_OR_POST)
def delete_node(request: PageRequest, pk: int) -> HttpResponse:
    """Delete a file or folder, once it is clear what goes with it and who would miss it."""
    node = get_node(request, pk)
    require(request.user, DELETE_PERMISSION, node)
    form = DeleteFileForm(get_posted_data(request))
    if request.method == "POST" and form.is_valid():
        try:
            delete_file(actor=request.user, node=node, **form.cleaned_data)
        except Problem as problem:
            form.refuse(problem)
        else:
            undo = reverse("deleted-files")
            said = format_html('{} is deleted. <a href="{}">Have it back</a>', node.path, undo)
            messages.success(request, said)
            return redirect("files")
    held = (
        filter_folder_contents(FileNode.objects.filter(scope=node.scope), node.path)
        if node.is_folder
        else None
    )
    content = {
        "form": form,
        "node": node,
        "uses": find_usages(node, request.user),
        "held": held.count() if held is not None else 0,
    }
    return render(request, "connectors/files/delete.html", content, status=form.http_status)


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
        message = f"{file.name} is no text in UTF-8: byte {exc.start + 1} does not fit."
    except VersionConflict:
        message = f"There is already a file {path}. Choose to replace it, or rename yours."
    except BadInput as problem:
        message = f"{file.name}: {problem.detail}"
    raise BadInput(message, errors=[{"path": "uploaded", "message": message}])


def _remove_empty(initial: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in initial.items() if value}


def _render_form(request: PageRequest, form: PageForm, name: str) -> HttpResponse:
    return render(request, f"connectors/files/{name}.html", {"form": form}, status=form.http_status)
