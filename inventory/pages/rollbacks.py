"""Pages of rollbacks: choice of an earlier deployment, and its plan to confirm."""

import uuid
from typing import Final

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from catalog.models import Infrastructure, Service
from deployments.models import Execution, StageExecution
from inventory.dashboards.rollback_plans import (
    build_rollback_plan,
    find_deployment_of_revision,
    find_live_services,
    list_restorable_deployments,
)
from inventory.dashboards.running_services import format_revision
from inventory.operations.redeployments import redeploy
from inventory.pages.services import VIEW_SERVICE, get_service
from inventory.queries.service_deployments import get_deployment, list_service_deployments
from rbac.policy import NotVisible, filter_visible, require
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

RUN_PIPELINE: Final = "core_pipeline_execute"
PAGE_SIZE: Final = 20
_LONGEST_ARN: Final = 512


@require_sign_in
@require_safe
def choose_stage(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Choose the service of an execution to roll back; with one, go straight to its deployments."""
    rows = Execution.objects.select_related("pipeline", "scope")
    execution = get_visible(request, "core_pipeline_view", rows, pk=pk)
    stages = list(
        execution.stages.select_related("service", "infrastructure__environment").order_by("position")
    )
    services = Service.objects.filter(pk__in=[stage.service_id for stage in stages])
    visible = set(filter_visible(request.user, VIEW_SERVICE, services).values_list("pk", flat=True))
    restorable = [stage for stage in stages if stage.infrastructure_id and stage.service_id in visible]
    places = {(stage.service_id, stage.infrastructure_id) for stage in stages}
    if len(places) == 1 and restorable:
        ((service, infrastructure),) = places
        return redirect("choose-rollback", pk=service, infrastructure=infrastructure)
    context = {"execution": execution, "stages": stages, "restorable": restorable}
    return render(request, "inventory/dashboards/rollback_stages.html", context)


@require_sign_in
@require_safe
def choose_deployment(request: PageRequest, pk: int, infrastructure: int) -> HttpResponse:
    """List the earlier successful deployments of a service to an infrastructure."""
    service = get_service(request, pk)
    places = Infrastructure.objects.select_related("environment")
    place = get_visible(request, "core_environment_view", places, pk=infrastructure)
    deployments = list_service_deployments(request.user, service)
    page = paginate_queryset(list_restorable_deployments(deployments, place.pk), request, size=PAGE_SIZE)
    live = find_live_services(
        request.user, service, StageExecution(service=service, infrastructure=place, ecs_service="")
    )
    running = {found.pk for row in live if (found := find_deployment_of_revision(deployments, row))}
    context = {
        "service": service,
        "place": place,
        "page": page,
        "live": [(row, format_revision(row.task_definition)) for row in live],
        "running": running,
    }
    return render(request, "inventory/dashboards/rollback_choice.html", context)


@require_sign_in
@require_get_or_post
def confirm_rollback(request: PageRequest, pk: int, deployment: int) -> HttpResponse:
    """Show the plan of a rollback, and start it."""
    service = get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    target = get_deployment(deployments, deployment)
    if target is None:
        raise NotVisible("This deployment of the service does not exist.")
    problem = ""
    if request.method == "POST":
        require(request.user, RUN_PIPELINE, target.execution.pipeline)
        running = request.POST.get("running")
        try:
            execution = redeploy(
                actor=request.user,
                service=service,
                deployment=target,
                running=None if running is None else running[:_LONGEST_ARN],
            )
        except Problem as error:
            problem = error.detail
        else:
            return redirect("execution", pk=execution.pk)
    context = {
        "service": service,
        "plan": build_rollback_plan(request.user, service, deployments, target),
        "target": target,
        "problem": problem,
    }
    return render(request, "inventory/dashboards/return.html", context, status=409 if problem else 200)
