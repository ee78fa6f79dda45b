"""Pages on which the text of a file is written: a new file, an edit, a check, an earlier version."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from connectors.file_checks import FileText, check_file, clean_up_file, guide_for, language_of
from connectors.files import clean_content, clean_path
from connectors.forms.files import FileTextForm, NewFileForm
from connectors.models import FileNode
from connectors.operations import restore_file, save_file
from connectors.pages.files import EDIT, VIEW, node_of
from rbac.models import Scope
from rbac.policy import require, scopes_where, visible_to
from web.page_forms import posted
from web.pages import PageRequest, page
from web.problems import ChangedMeanwhile, Problem
from web.text_diff import diff

GET_OR_POST: Final = ["GET", "HEAD", "POST"]


@page
@require_http_methods(GET_OR_POST)
def new_file(request: PageRequest) -> HttpResponse:
    """This will create a file from a path and a text."""
    begun = {"path": request.GET.get("path", ""), "in_scope": request.GET.get("in", "")}
    initial = {name: value for name, value in begun.items() if value}
    form = NewFileForm(posted(request), person=request.user, scope=request.current_scope, initial=initial)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            node = save_file(
                actor=request.user,
                scope=given["in_scope"],
                path=given["path"],
                content=given["content"],
                expected_version=0,
            )
        except ChangedMeanwhile:
            form.add_error("path", "There is already a file with this path.")
        except Problem as problem:
            form.refuse(problem)
        else:
            return _saved(request, node)
    return _new_page(request, form)


@page
@require_http_methods(GET_OR_POST)
def edit_file(request: PageRequest, pk: int) -> HttpResponse:
    """This will save a new version of a file; what somebody else saved meanwhile is shown, not lost."""
    # What one may not see is as gone as what is deleted: the answer must not tell them apart.
    mine = visible_to(request.user, VIEW, FileNode.objects.filter(pk=pk, is_folder=False))
    if request.method == "POST" and not mine.exists():
        return _deleted_meanwhile(request)
    node = node_of(request, pk, is_folder=False)
    require(request.user, EDIT, node)
    if request.method != "POST":
        form = FileTextForm(initial={"content": node.content, "version": node.version})
        return _edit_page(request, form, node)
    form = FileTextForm(request.POST)
    if not form.is_valid():
        return _edit_page(request, form, node)
    given = form.cleaned_data
    try:
        saved = save_file(
            actor=request.user,
            scope=node.scope,
            path=node.path,
            content=given["content"],
            note=given["note"],
            expected_version=given["version"],
        )
    except ChangedMeanwhile:
        return _changed_meanwhile(request, node)
    except Problem as problem:
        form.refuse(problem)
        return _edit_page(request, form, node)
    return _saved(request, saved)


@page
@require_POST
def check_text(request: PageRequest) -> HttpResponse:
    """This will say what is wrong with a text that is being written; the editor asks."""
    return JsonResponse(check_file(_text_of(request)).to_json())


@page
@require_POST
def clean_up(request: PageRequest) -> HttpResponse:
    """Answer a text that is being written as AWS takes it, with what changes; the editor asks."""
    return JsonResponse(clean_up_file(_text_of(request), request.user).to_json())


def _text_of(request: PageRequest) -> FileText:
    """The text that an editor sends, for the file that it is or may become."""
    if pk := request.POST.get("node"):
        node = node_of(request, int(pk) if pk.isascii() and pk.isdigit() else 0)
        scope, path = node.scope, node.path
    else:
        scope = get_object_or_404(scopes_where(request.user, VIEW), path=request.POST.get("in_scope", ""))
        path = clean_path(request.POST.get("path") or "/unnamed.yaml")
    return FileText(scope, path, clean_content(request.POST.get("content", "")))


@page
@require_POST
def restore(request: PageRequest, pk: int, version: int) -> HttpResponse:
    """This will make an earlier version of a file its newest one."""
    restored = restore_file(actor=request.user, node=node_of(request, pk, is_folder=False), version=version)
    messages.success(request, f"Version {version} of {restored.path} is version {restored.version} now.")
    return redirect("file-history", pk=pk)


def _saved(request: PageRequest, node: FileNode) -> HttpResponse:
    found = check_file(FileText(node.scope, node.path, node.content))
    what = f"{node.path} is saved as version {node.version}."
    if found.errors:
        count = len(found.errors)
        wrong = f"{count} error" if count == 1 else f"{count} errors"
        messages.warning(request, f"{what} It has {wrong}: a deployment with it would be refused.")
    else:
        messages.success(request, what)
    return redirect("file", pk=node.pk)


def _new_page(request: PageRequest, form: NewFileForm, **more: Any) -> HttpResponse:
    path = str(form["path"].value() or "")
    content = {"form": form, "language": language_of(path) if "." in path else "yaml"}
    return render(request, "connectors/files/new.html", content | more, status=form.http_status)


def _edit_page(request: PageRequest, form: FileTextForm, node: FileNode, **more: Any) -> HttpResponse:
    text = FileText(node.scope, node.path, str(form["content"].value() or ""))
    content = {
        "form": form,
        "node": node,
        "language": language_of(node.path),
        "problems": check_file(text).listed(),
        "guide": guide_for(FileText(node.scope, node.path, node.content)),
    }
    status = form.http_status
    return render(request, "connectors/files/edit.html", content | more, status=more.get("status", status))


def _changed_meanwhile(request: PageRequest, node: FileNode) -> HttpResponse:
    """Show what was written over what was saved meanwhile; the next save means to replace that."""
    node.refresh_from_db()
    mine = clean_content(request.POST.get("content", ""))
    form = FileTextForm(
        initial={"content": mine, "version": node.version, "note": request.POST.get("note", "")}
    )
    return _edit_page(request, form, node, diff=diff(node.content, mine), status=409)


def _deleted_meanwhile(request: PageRequest) -> HttpResponse:
    """Offer to keep what was written for a file that is gone as a new file."""
    wanted = {
        "in_scope": request.POST.get("in_scope", ""),
        "path": request.POST.get("path", ""),
        "content": request.POST.get("content", ""),
    }
    scope = Scope.objects.filter(path=wanted["in_scope"]).first()
    form = NewFileForm(person=request.user, scope=scope, initial=wanted)
    return _new_page(request, form, is_gone=True)
