"""Pages of pipelines: the list, one pipeline with its YAML, and the form that runs it with its tags."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from catalog.artifacts.image_sources import ImageSource
from catalog.artifacts.image_tags import NO_SOURCE_MESSAGE, request_tags
from catalog.pages.image_tags import build_tag_response
from connectors.models import Connector
from delegates.access.images import ImageTags
from delegates.models import LookupRequest
from deployments.execution import operations, queries
from deployments.execution.policy_checks import PlannedChecks, check_planned_run
from deployments.forms import RunForm
from deployments.freezes import operations as freezes_operations
from pipelines import queries as pipelines_queries
from pipelines.deployability import list_deploying_stages
from pipelines.inputs import input_sets
from pipelines.inputs.variables import format_variable_value
from pipelines.models import InputSet, Pipeline
from pipelines.pages.pipelines import build_graph_of_text
from rbac.policy import can, can_anywhere, get_permissions, require
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_permitted_ids,
    get_visible,
    require_get_or_post,
    require_sign_in,
)
from web.http.problems import Conflict, Problem

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
EXECUTE: Final = "core_pipeline_execute"
RECENT: Final = 10
SETS_SHOWN: Final = 50
# The button that fills in the chosen input sets, and starts nothing.
APPLY_SETS: Final = "apply_sets"


@require_sign_in
@require_safe
def pipelines(request: PageRequest) -> HttpResponse:
    """List pipelines with their last runs."""
    options = read_list_options(request, queries.PIPELINE_FILTERS)
    rows = pipelines_queries.list_visible_pipelines(request.user, request.current_scope)
    rows = queries.filter_pipelines_by_activity(rows, options.filter)
    page = paginate_list(rows.filter(build_name_filter(options.text)), request, options)
    activity = queries.load_pipeline_activity(request.user, page.items)
    runnable = get_permitted_ids(request, EXECUTE, Pipeline, page.items)
    context = {
        "page": page,
        "rows": [(item, activity[item.pk], item.pk in runnable) for item in page.items],
        "options": options,
        "may_add": can_anywhere(request.user, EDIT),
        "may_import": can_anywhere(request.user, "core_service_edit"),
        "topics": get_list_topics(request, "executions"),
    }
    return render(request, "pipelines/list.html", context)


@require_sign_in
@require_safe
def pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Show a pipeline, its YAML and its newest executions."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    recent = (
        queries.list_visible_executions(request.user)
        .filter(pipeline=pipeline)
        .order_by("-created_at")[:RECENT]
    )
    rights = get_permissions(request.user, pipeline)
    context = {
        "pipeline": pipeline,
        "recent": recent,
        "may_run": EXECUTE in rights,
        "rights": rights,
        "may_change_strategy": EDIT in rights and bool(list_deploying_stages(pipeline.yaml)),
        "graph": build_graph_of_text(pipeline.yaml),
    }
    return render(request, "pipelines/detail.html", context)


@require_sign_in
@require_get_or_post
def run_pipeline(request: PageRequest, pk: int) -> HttpResponse:
    """Show the plan of a run, and start it."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, pipeline)
    form = _build_run_form(request, pipeline)
    if request.method == "POST" and APPLY_SETS not in request.POST and form.is_valid():
        tag = form.cleaned_data["tag"]
        try:
            made = operations.run_pipeline(
                actor=request.user,
                pipeline=pipeline,
                artifact_tag=tag,
                inputs=form.inputs(),
                override_freeze=form.cleaned_data["override_freeze"],
                input_set_names=form.chosen,
                force_new_deployment=form.force_new_deployment,
            )
            return redirect("execution", pk=made.pk)
        except Problem as problem:
            form.refuse(problem)
    may_keep = can(request.user, input_sets.EDIT, pipeline)
    context: dict[str, Any] = {"pipeline": pipeline, "form": form, "may_keep": may_keep}
    context["policy"] = _check_policy(request, form)
    context["frozen"] = freezes_operations.get_active_freeze(request.user, pipeline, form.targets)
    return render(request, "pipelines/run.html", context)


def _build_run_form(request: PageRequest, pipeline: Pipeline) -> RunForm:
    """Return the form of a run with the values of the chosen input sets."""
    sets = list(input_sets.list_visible_input_sets(pipeline, request.user)[:SETS_SHOWN])
    data: QueryDict = request.POST if request.method == "POST" else request.GET
    if APPLY_SETS in request.POST:
        data = _replace_input_sets(request.POST, sets)
    form = RunForm(data if request.POST else None, pipeline=pipeline)
    form.apply_input_sets(sets, data.getlist("set"))
    return form


def _replace_input_sets(posted: QueryDict, sets: Sequence[InputSet]) -> QueryDict:
    """Return what was entered, with the values of the sets chosen now in place of the former ones."""
    data, values_by_set = posted.copy(), {row.identifier: row.inputs for row in sets}
    before, chosen = posted.getlist("set"), posted.getlist("chosen_set")
    for name, value in (item for key in before for item in values_by_set.get(key, {}).items()):
        if data.get(f"input.{name}") == format_variable_value(value):
            del data[f"input.{name}"]
    for name, value in (item for key in chosen for item in values_by_set.get(key, {}).items()):
        data[f"input.{name}"] = format_variable_value(value)
    data.setlist("set", chosen)
    return data


@require_sign_in
@require_POST
def plan_of_run(request: PageRequest, pk: int) -> HttpResponse:
    """Show the plan of a run for the current input."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, pipeline)
    form = _build_run_form(request, pipeline)
    content = {"pipeline": pipeline, "form": form, "policy": _check_policy(request, form)}
    return render(request, "pipelines/_plan.html", content)


def _check_policy(request: PageRequest, form: RunForm) -> PlannedChecks:
    tag = str(form["tag"].value() or "")
    return check_planned_run(request.user, form.pipeline, form.targets, tag, form.current_inputs())


@require_sign_in
@require_safe
def list_pipeline_tags(request: PageRequest, pk: int) -> HttpResponse:
    """List the tags of the image that a run of a pipeline deploys."""
    pipeline = get_visible(request, VIEW, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EXECUTE, pipeline)
    return build_tag_response(request, lambda: _request_tags(request, pipeline))


def _request_tags(request: PageRequest, pipeline: Pipeline) -> ImageTags | LookupRequest:
    source: ImageSource = operations.get_default_artifact(pipeline).get("source") or {}
    if not source:
        raise Conflict(NO_SOURCE_MESSAGE)
    connector = Connector.objects.filter(pk=source["connector_id"]).first()
    return request_tags(request.user, source, connector)
