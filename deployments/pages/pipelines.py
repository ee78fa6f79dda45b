"""Pages of pipelines: the list, one pipeline with its YAML, and the form that runs it."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from deployments.execution import operations, queries
from deployments.forms import RunForm
from deployments.freezes import operations as freezes_operations
from pipelines import queries as pipelines_queries
from pipelines.inputs import input_sets
from pipelines.models import Pipeline
from pipelines.pages.pipelines import build_graph_of_text
from rbac.policy import can, can_anywhere, get_permissions, require
from web.forms.pages import PageRequest, get_permitted_ids, get_visible, require_get_or_post, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
EXECUTE: Final = "core_pipeline_execute"
RECENT: Final = 10
SETS_SHOWN: Final = 50


@require_sign_in
@require_safe
def pipelines(request: PageRequest) -> HttpResponse:
    """List pipelines."""
    shown = paginate_queryset(
        pipelines_queries.list_visible_pipelines(request.user, request.current_scope), request
    )
    runnable = get_permitted_ids(request, EXECUTE, Pipeline, shown.items)
    return render(
        request,
        "pipelines/list.html",
        {"page": shown, "runnable": runnable, "may_add": can_anywhere(request.user, EDIT)},
    )


@require_sign_in
@require_safe
def pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Show a pipeline, its YAML and its newest executions."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    recent = (
        queries.list_visible_executions(request.user).filter(pipeline=found).order_by("-created_at")[:RECENT]
    )
    rights = get_permissions(request.user, found)
    context = {
        "pipeline": found,
        "recent": recent,
        "may_run": EXECUTE in rights,
        "rights": rights,
        "graph": build_graph_of_text(found.yaml),
    }
    return render(request, "pipelines/detail.html", context)


@require_sign_in
@require_get_or_post
def run_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Show what a run would do, and start it."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, found)
    form = RunForm(request.POST or None, pipeline=found)
    told = request.POST if request.method == "POST" else request.GET
    form.begin_with(input_sets.list_visible_input_sets(found, request.user)[:SETS_SHOWN], told.getlist("set"))
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
    context["frozen"] = freezes_operations.get_active_freeze(request.user, found)
    return render(request, "pipelines/run.html", context)


@require_sign_in
@require_POST
def plan_of_run(request: PageRequest, pk: int) -> HttpResponse:
    """Show the plan of a run again, with what has been entered by now."""
    found = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, found)
    form = RunForm(request.POST, pipeline=found)
    return render(request, "pipelines/_plan.html", {"pipeline": found, "form": form})
