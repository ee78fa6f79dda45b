"""Pages of pipelines: the list, one pipeline with its YAML, and the form that runs it."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from deployments import freezes, operations, queries
from deployments.forms.runs import RunForm
from pipelines import queries as pipelines_queries
from pipelines.inputs import input_sets
from pipelines.models import Pipeline
from pipelines.pages.editor import drawn
from rbac.policy import can, can_anywhere, permissions_at, require
from web.lists import granted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
EXECUTE: Final = "core_pipeline_execute"
RECENT: Final = 10
SETS_SHOWN: Final = 50


@page
@require_safe
def pipelines(request: PageRequest) -> HttpResponse:
    """This will list pipelines."""
    shown = keyset(pipelines_queries.visible_pipelines(request.user, request.current_scope), request)
    runnable = granted(request, EXECUTE, Pipeline, shown.items)
    return render(
        request,
        "pipelines/list.html",
        {"page": shown, "runnable": runnable, "may_add": can_anywhere(request.user, EDIT)},
    )


@page
@require_safe
def pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will show a pipeline, its YAML and its newest executions."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    recent = queries.visible_executions(request.user).filter(pipeline=found).order_by("-created_at")[:RECENT]
    rights = permissions_at(request.user, found)
    context = {
        "pipeline": found,
        "recent": recent,
        "may_run": EXECUTE in rights,
        "rights": rights,
        "graph": drawn(found.yaml),
    }
    return render(request, "pipelines/detail.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def run_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what a run would do, and start it."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, found)
    form = RunForm(request.POST or None, pipeline=found)
    told = request.POST if request.method == "POST" else request.GET
    form.begin_with(input_sets.input_sets_of(found, request.user)[:SETS_SHOWN], told.getlist("set"))
    if request.method == "POST" and form.is_valid():
        tag = form.cleaned_data["tag"]
        try:
            made = operations.run_pipeline(
                actor=request.user,
                pipeline=found,
                artifact_tag=tag,
                inputs=form.inputs(),
                override_freeze=form.cleaned_data["override_freeze"],
                from_sets=form.chosen,
                force_new_deployment=False if form.cleaned_data["keep_same_tasks"] else None,
            )
            return redirect("execution", pk=made.pk)
        except Problem as problem:
            form.refuse(problem)
    may_keep = can(request.user, input_sets.EDIT, found)
    context: dict[str, Any] = {"pipeline": found, "form": form, "may_keep": may_keep}
    context["frozen"] = freezes.frozen_for(request.user, found)
    return render(request, "pipelines/run.html", context)


@page
@require_POST
def plan_of_run(request: PageRequest, pk: int) -> HttpResponse:
    """This will show the plan of a run again, with what has been entered by now."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, found)
    form = RunForm(request.POST, pipeline=found)
    return render(request, "pipelines/_plan.html", {"pipeline": found, "form": form})
