"""Pages that change the strategy by which a pipeline deploys a running service."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from inventory.operations.strategy_changes import (
    EDIT_PIPELINE,
    ReadingPending,
    ReadStage,
    change_strategy,
    preview_strategy_change,
    read_stage,
)
from inventory.pages.services import get_service
from inventory.pages.strategy_forms import StrategySettingsForm
from inventory.strategy_changes.obstacles import list_service_obstacles
from inventory.strategy_changes.proposals import list_stage_targets
from inventory.strategy_changes.strategies import TITLES, describe_strategy_name
from pipelines.deployability import list_deploying_stages
from pipelines.models import Pipeline
from pipelines.queries import find_pipelines_using
from rbac.policy import can, filter_visible, require
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.forms.resource_pages import Breadcrumb
from web.http.problems import Problem

VIEW_PIPELINE: Final = "core_pipeline_view"
# The button that confirms a review sends its digest.
DIGEST_FIELD: Final = "digest"


@require_sign_in
@require_get_or_post
def change_pipeline_strategy(request: PageRequest, pk: int) -> HttpResponse:
    """Show how the service of a stage runs, review a change of its strategy, and make it."""
    pipeline = get_visible(request, VIEW_PIPELINE, Pipeline.objects.select_related("scope"), pk=pk)
    require(request.user, EDIT_PIPELINE, pipeline)
    stage, strategy = request.GET.get("stage", ""), request.GET.get("to", "")
    content = _build_content(pipeline, stage, strategy)
    try:
        read = read_stage(
            actor=request.user, pipeline=pipeline, stage=stage, is_repeated=request.method == "POST"
        )
    except ReadingPending as pending:
        return _render(request, {**content, "waits": pending.lookup})
    except Problem as problem:
        return _render(request, {**content, "problem": problem})
    content |= _describe_stage(read)
    if strategy not in TITLES:
        return _render(request, content)
    if obstacles := list(list_service_obstacles(read.reading, strategy)):
        return _render(request, {**content, "obstacles": obstacles})
    form = StrategySettingsForm(request.POST or None, read=read, strategy=strategy)
    content["form"] = form
    if request.method != "POST" or not form.is_valid():
        return _render(request, content, status=form.http_status)
    return _review(request, pipeline, form, content)


@require_sign_in
@require_safe
def choose_service_stage(request: PageRequest, pk: int) -> HttpResponse:
    """List the stages that deploy a service, of the pipelines that the user may edit."""
    service = get_service(request, pk)
    visible = find_pipelines_using(service, request.user).visible
    rows = Pipeline.objects.filter(pk__in=[pipeline.pk for pipeline in visible]).select_related("scope")
    stages = [
        (pipeline, stage)
        for pipeline in filter_visible(request.user, EDIT_PIPELINE, rows).order_by("name", "pk")
        for stage in list_deploying_stages(pipeline.yaml)
        if stage.service == service.identifier
    ]
    back = reverse("service-dashboard", args=[service.pk])
    content = {
        "service": service,
        "stages": stages,
        "breadcrumbs": [Breadcrumb("Services", reverse("services")), Breadcrumb(service.name, back)],
        "here": "Change strategy",
    }
    return render(request, "inventory/strategy_stages.html", content)


def _review(
    request: PageRequest, pipeline: Pipeline, form: StrategySettingsForm, content: dict[str, Any]
) -> HttpResponse:
    choice = form.build_choice()
    try:
        if digest := request.POST.get(DIGEST_FIELD, ""):
            changed = change_strategy(actor=request.user, pipeline=pipeline, choice=choice, digest=digest)
            messages.success(
                request,
                f"{changed.name} deploys with {TITLES[choice.strategy]} now. Nothing was deployed: "
                "preview or rehearse the next run.",
            )
            may_run = can(request.user, "core_pipeline_execute", changed)
            return redirect("preview-pipeline" if may_run else "pipeline", pk=changed.pk)
        content["change"] = preview_strategy_change(actor=request.user, pipeline=pipeline, choice=choice)
    except Problem as problem:
        form.add_problem(problem)
        return _render(request, content, status=problem.status)
    return _render(request, content)


def _build_content(pipeline: Pipeline, stage: str, strategy: str) -> dict[str, Any]:
    back = reverse("pipeline", args=[pipeline.pk])
    targets = list_stage_targets(pipeline)
    return {
        "pipeline": pipeline,
        "targets": targets,
        "stage": stage or (targets[0].spec.identifier if targets else ""),
        "strategies": list(TITLES.items()),
        "strategy": strategy,
        "strategy_title": TITLES.get(strategy, ""),
        "back": back,
        "breadcrumbs": [Breadcrumb("Pipelines", reverse("pipelines")), Breadcrumb(pipeline.name, back)],
        "here": "Change strategy",
    }


def _describe_stage(read: ReadStage) -> dict[str, Any]:
    service = read.reading.service
    return {
        "read": read,
        "running_title": describe_strategy_name(read.reading.strategy),
        "written_title": TITLES[read.stage.strategy],
        "counts": f"{service.get('runningCount', 0)} of {service.get('desiredCount', 0)}" if service else "",
        "live_groups": [read.reading.get_group_name(arn) for arn in read.reading.live_groups],
    }


def _render(request: PageRequest, content: dict[str, Any], status: int = 200) -> HttpResponse:
    return render(request, "inventory/strategy_change.html", content, status=status)
