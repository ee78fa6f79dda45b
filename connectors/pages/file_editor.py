"""Pages of the file editor: create, edit, check, clean up, restore a version."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from connectors.file_kinds import (
    FileText,
    check_file,
    clean_up_file,
    get_completion_guide,
    get_editor_language,
)
from connectors.file_store import normalize_content, normalize_path
from connectors.forms.files import FileTextForm, NewFileForm
from connectors.models import FileNode
from connectors.operations import restore_file, save_file
from connectors.pages.files import EDIT_PERMISSION, VIEW_PERMISSION, get_node
from rbac.models import Scope
from rbac.policy import filter_visible, list_permitted_scopes, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, require_get_or_post, require_sign_in
from web.http.problems import Problem, VersionConflict
from web.text_diffs import compare_texts


@require_sign_in
@require_get_or_post
def new_file(request: PageRequest) -> HttpResponse:
    """Create a file from a path and a text."""
    begun = {"path": request.GET.get("path", ""), "in_scope": request.GET.get("in", "")}
    initial = {name: value for name, value in begun.items() if value}
    form = NewFileForm(
        get_posted_data(request),
        person=request.user,
        permission=EDIT_PERMISSION,
        scope=request.current_scope,
        initial=initial,
    )
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            node = save_file(
                actor=request.user,
                scope=data["in_scope"],
                path=data["path"],
                content=data["content"],
                expected_version=0,
            )
        except VersionConflict:
            form.add_error("path", "A file with this path already exists.")
        except Problem as problem:
            form.add_problem(problem)
        else:
            return _redirect_to_saved(request, node)
    return _render_new(request, form)


@require_sign_in
@require_get_or_post
def edit_file(request: PageRequest, pk: int) -> HttpResponse:
    """Save a new version of a file; on a conflict show the other user's version."""
    # The response must be the same for invisible and for deleted files.
    nodes = filter_visible(request.user, VIEW_PERMISSION, FileNode.objects.filter(pk=pk, is_folder=False))
    if request.method == "POST" and not nodes.exists():
        return _render_deleted_conflict(request)
    node = get_node(request, pk, is_folder=False)
    require(request.user, EDIT_PERMISSION, node)
    if request.method != "POST":
        form = FileTextForm(initial={"content": node.content, "version": node.version})
        return _render_edit(request, form, node)
    form = FileTextForm(request.POST)
    if not form.is_valid():
        return _render_edit(request, form, node)
    data = form.cleaned_data
    try:
        saved = save_file(
            actor=request.user,
            scope=node.scope,
            path=node.path,
            content=data["content"],
            note=data["note"],
            expected_version=data["version"],
        )
    except VersionConflict:
        return _render_edit_conflict(request, node)
    except Problem as problem:
        form.add_problem(problem)
        return _render_edit(request, form, node)
    return _redirect_to_saved(request, saved)


@require_sign_in
@require_POST
def check_text(request: PageRequest) -> HttpResponse:
    """Return the problems of an edited text for the editor."""
    return JsonResponse(check_file(_read_file_text(request)).to_json())


@require_sign_in
@require_POST
def clean_up_text(request: PageRequest) -> HttpResponse:
    """Return an edited text in the format of AWS, with the changes, for the editor."""
    return JsonResponse(clean_up_file(_read_file_text(request), request.user).to_json())


def _read_file_text(request: PageRequest) -> FileText:
    """Return the text from an editor for an existing or new file."""
    if pk := request.POST.get("node"):
        node = get_node(request, pk)
        scope, path = node.scope, node.path
    else:
        scope = get_object_or_404(
            list_permitted_scopes(request.user, VIEW_PERMISSION), path=request.POST.get("in_scope", "")
        )
        path = normalize_path(request.POST.get("path") or "/unnamed.yaml")
    return FileText(scope, path, normalize_content(request.POST.get("content", "")))


@require_sign_in
@require_POST
def restore_version(request: PageRequest, pk: int, version: int) -> HttpResponse:
    """Restore an earlier version of a file as its newest version."""
    restored = restore_file(actor=request.user, node=get_node(request, pk, is_folder=False), version=version)
    messages.success(
        request, (f"Version {version} of {restored.path} restored as version {restored.version}.")
    )
    return redirect("file-history", pk=pk)


def _redirect_to_saved(request: PageRequest, node: FileNode) -> HttpResponse:
    check = check_file(FileText(node.scope, node.path, node.content))
    message = f"{node.path} saved as version {node.version}."
    if check.errors:
        count = len(check.errors)
        wrong = f"{count} error" if count == 1 else f"{count} errors"
        messages.warning(request, f"{message} It has {wrong}: deployments with this file will fail.")
    else:
        messages.success(request, message)
    return redirect("file", pk=node.pk)


def _render_new(request: PageRequest, form: NewFileForm, **more: Any) -> HttpResponse:
    path = str(form["path"].value() or "")
    content = {"form": form, "language": get_editor_language(path) if "." in path else "yaml"}
    return render(request, "connectors/files/new.html", content | more, status=form.http_status)


def _render_edit(request: PageRequest, form: FileTextForm, node: FileNode, **more: Any) -> HttpResponse:
    text = FileText(node.scope, node.path, str(form["content"].value() or ""))
    content = {
        "form": form,
        "node": node,
        "language": get_editor_language(node.path),
        "problems": check_file(text).list_problems(),
        "guide": get_completion_guide(FileText(node.scope, node.path, node.content)),
    }
    status = form.http_status
    return render(request, "connectors/files/edit.html", content | more, status=more.get("status", status))


def _render_edit_conflict(request: PageRequest, node: FileNode) -> HttpResponse:
    """Show the conflict with a newer version; the next save replaces that version."""
    node.refresh_from_db()
    content = normalize_content(request.POST.get("content", ""))
    form = FileTextForm(
        initial={"content": content, "version": node.version, "note": request.POST.get("note", "")}
    )
    return _render_edit(request, form, node, diff=compare_texts(node.content, content), status=409)


def _render_deleted_conflict(request: PageRequest) -> HttpResponse:
    """Offer to save the text of a deleted file as a new file."""
    initial = {
        "in_scope": request.POST.get("in_scope", ""),
        "path": request.POST.get("path", ""),
        "content": request.POST.get("content", ""),
    }
    scope = Scope.objects.filter(path=initial["in_scope"]).first()
    form = NewFileForm(person=request.user, permission=EDIT_PERMISSION, scope=scope, initial=initial)
    return _render_new(request, form, is_gone=True)
