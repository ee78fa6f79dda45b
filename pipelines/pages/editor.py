"""Pages on which a pipeline is written: a new one, an edit, its checks, its graph, its history."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from catalog.forms.resources import DeleteForm
from pipelines.definition.parser import BadPipelineError, read_pipeline
from pipelines.editor.graph import Graph, graph_of
from pipelines.editor.guide import pipeline_guide
from pipelines.forms.pipelines import NewPipelineForm, PipelineForm, StartForm, TemplateForm
from pipelines.models import Pipeline, PipelineVersion
from pipelines.operations import pipelines
from rbac.models import Scope
from rbac.policy import NotVisible, can, require, scopes_where, visible_to
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem
from web.text_diff import diff

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
DELETE: Final = "core_pipeline_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


def pipeline_of(request: PageRequest, pk: int) -> Pipeline:
    """The pipeline that is meant. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)


def drawn(yaml: str) -> Graph | None:
    """The graph of a text, None where it is no pipeline."""
    try:
        return graph_of(read_pipeline(yaml))
    except BadPipelineError:
        return None


@page
@require_http_methods(GET_OR_POST)
def new_pipeline(request: PageRequest) -> HttpResponse:
    """This will create a pipeline from a text that begins as a template."""
    start = StartForm(request.GET if "name" in request.GET else None)
    template = TemplateForm(
        request.GET if "strategy" in request.GET else None, person=request.user, scope=request.current_scope
    )
    form = NewPipelineForm(
        posted(request),
        person=request.user,
        permission=EDIT,
        scope=request.current_scope,
        initial={"yaml": start.text() or template.text()},
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = pipelines.save_pipeline(actor=request.user, scope=given["in_scope"], yaml=given["yaml"])
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{made.name} is there. Run it when you are ready.")
            return redirect("pipeline", pk=made.pk)
    return _form_page(request, form, request.current_scope, template=template, start=start)


@page
@require_http_methods(GET_OR_POST)
def edit_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will save a new version of a pipeline; what somebody else saved meanwhile is shown, not lost."""
    # What one may not see is as gone as what is deleted: the answer must not tell them apart.
    mine = visible_to(request.user, VIEW, Pipeline.objects.filter(pk=pk))
    if request.method == "POST" and not mine.exists():
        return _deleted_meanwhile(request)
    found = pipeline_of(request, pk)
    require(request.user, EDIT, found)
    if request.method != "POST":
        form = PipelineForm(initial={"yaml": found.yaml, "version": found.version})
        return _form_page(request, form, found.scope, pipeline=found)
    form = PipelineForm(request.POST)
    if not form.is_valid():
        return _form_page(request, form, found.scope, pipeline=found)
    given = form.cleaned_data
    try:
        saved = pipelines.save_pipeline(
            actor=request.user,
            scope=found.scope,
            yaml=given["yaml"],
            pipeline=found,
            version=given["version"] or 0,
        )
    except ChangedMeanwhile:
        return _changed_meanwhile(request, pk, given["yaml"])
    except Problem as problem:
        form.refuse(problem)
        return _form_page(request, form, found.scope, pipeline=found)
    messages.success(request, f"{saved.name} is saved as version {saved.version}.")
    return redirect("pipeline", pk=pk)


@page
@require_http_methods(GET_OR_POST)
def delete_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before a pipeline goes."""
    found = pipeline_of(request, pk)
    require(request.user, DELETE, found)
    form = DeleteForm(posted(request))
    if request.method == "POST":
        pipelines.delete_pipeline(actor=request.user, pipeline=found)
        messages.success(request, f"{found.name} is deleted. Its executions can still be read.")
        return redirect("pipelines")
    return render(request, "pipelines/delete.html", {"pipeline": found, "form": form})


@page
@require_POST
def check_pipeline(request: PageRequest) -> HttpResponse:
    """This will say what is wrong with a pipeline that is being written; the editor asks."""
    scopes = scopes_where(request.user, VIEW)
    scope = get_object_or_404(scopes, path=request.POST.get("in_scope", ""))
    return JsonResponse(pipelines.checked(request.POST.get("yaml", ""), scope, request.user))


@page
@require_POST
def draw_pipeline(request: PageRequest) -> HttpResponse:
    """This will draw the text that is being written; one that cannot be read leaves the last drawing."""
    graph = drawn(request.POST.get("yaml", ""))
    response = render(request, "pipelines/_graph.html", {"graph": graph, "is_followed": True})
    if graph is None:
        response["HX-Reswap"] = "none"
    return response


@page
@require_safe
def pipeline_history(request: PageRequest, pk: int) -> HttpResponse:
    """This will list the versions of a pipeline, and show one of them or the difference of two."""
    found = pipeline_of(request, pk)
    rows = PipelineVersion.objects.filter(pipeline=found).defer("yaml").select_related("saved_by")
    content: dict[str, Any] = {
        "pipeline": found,
        "page": keyset(rows, request, order="number"),
        "can_edit": can(request.user, EDIT, found),
    }
    if shown := request.GET.get("show"):
        content["shown"] = _version(found, shown)
        content["graph"] = drawn(content["shown"].yaml)
    elif found.version > 1:
        newer = _version(found, request.GET.get("to") or str(found.version))
        older = _version(found, request.GET.get("from") or str(newer.number - 1))
        content |= {"older": older, "newer": newer, "diff": diff(older.yaml, newer.yaml)}
    return render(request, "pipelines/history.html", content)


@page
@require_POST
def restore_pipeline(request: PageRequest, pk: int, number: int) -> HttpResponse:
    """This will save an earlier version of a pipeline as its newest one."""
    found = pipeline_of(request, pk)
    restored = pipelines.restore_version(actor=request.user, pipeline=found, number=number)
    messages.success(request, f"Version {number} of {restored.name} is version {restored.version} now.")
    return redirect("pipeline-history", pk=pk)


def _version(pipeline: Pipeline, number: str) -> PipelineVersion:
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    version = pipeline.versions.filter(number=int(number)).first() if is_number else None
    if version is None:
        raise NotVisible("There is no such version.")
    return version


def _changed_meanwhile(request: PageRequest, pk: int, mine: str) -> HttpResponse:
    """Show what was written over what was saved meanwhile; the next save means to replace that."""
    stored = pipeline_of(request, pk)
    mine = mine.replace("\r\n", "\n")
    form = PipelineForm(initial={"yaml": mine, "version": stored.version})
    return _form_page(request, form, stored.scope, pipeline=stored, diff=diff(stored.yaml, mine), status=409)


def _deleted_meanwhile(request: PageRequest) -> HttpResponse:
    """Offer to keep what was written for a pipeline that is gone as a new one."""
    begun = {name: request.POST.get(name, "") for name in ("in_scope", "yaml")}
    scope = scopes_where(request.user, EDIT).filter(path=begun["in_scope"]).first()
    form = NewPipelineForm(person=request.user, permission=EDIT, scope=scope, initial=begun)
    return _form_page(request, form, scope, is_gone=True, status=409)


def _form_page(request: PageRequest, form: PipelineForm, scope: Scope | None, **more: Any) -> HttpResponse:
    yaml = str(form["yaml"].value() or "")
    content = {
        "form": form,
        "graph": drawn(yaml),
        "guide": pipeline_guide(scope, request.user),
        "is_dirty": form.is_bound or "diff" in more or "is_gone" in more,
    }
    status = more.pop("status", form.http_status)
    return render(request, "pipelines/edit.html", content | more, status=status)
