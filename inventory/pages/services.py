"""Pages of services: the environment matrix, the dashboard, comparison and redeployment."""

from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalog.models import Service
from deployments.models import StageExecution
from inventory.dashboards.deployment_differences import compare_deployments
from inventory.dashboards.drift_summaries import summarize_drift
from inventory.dashboards.environment_matrix import build_environment_matrix
from inventory.dashboards.running_services import list_running_services
from inventory.dashboards.service_list import (
    SERVICE_FILTERS,
    filter_services_by_state,
    list_service_states,
)
from inventory.operations import redeployments
from inventory.queries.service_deployments import (
    get_latest_deployment,
    list_active_deployments,
    list_newest_events,
    list_service_deployments,
)
from inventory.sync.watched_services import record_view
from rbac.policy import NotVisible, can_anywhere, require
from web.clock import get_database_time
from web.forms.lists import build_name_filter, paginate_list, read_list_options, read_search_text
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_visible,
    list_visible,
    require_get_or_post,
    require_sign_in,
)
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW_SERVICE: Final = "core_service_view"
PAGE_SIZE: Final = 20
# More than any key has.
MAX_KEY_DIGITS: Final = 18


@require_sign_in
@require_safe
def list_services(request: PageRequest) -> HttpResponse:
    """List services with health, versions, last deployment and drift."""
    options = read_list_options(request, SERVICE_FILTERS)
    services = list_visible(request, VIEW_SERVICE, Service.objects.select_related("scope", "artifact"))
    services = filter_services_by_state(services, request.user, options.filter)
    page = paginate_list(services.filter(build_name_filter(options.text)), request, options)
    context = {
        "page": page,
        "states": list_service_states(request.user, page.items, get_database_time()),
        "options": options,
        "may_add": can_anywhere(request.user, "core_service_edit"),
        "topics": get_list_topics(request, "executions", "instances"),
    }
    return render(request, "inventory/dashboards/services.html", context)


@require_sign_in
@require_safe
def show_dashboard(request: PageRequest, pk: int) -> HttpResponse:
    """Show the dashboard of one service."""
    service = _get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    page = paginate_queryset(deployments, request, size=PAGE_SIZE)
    running_services = list_running_services(request.user, [service], detailed=True, drawn=True)
    now = get_database_time()
    record_view([row.ecs_service for row in running_services], timezone.now())
    context: dict[str, Any] = {
        "service": service,
        "places": [(row, summarize_drift(row.ecs_service, now)) for row in running_services],
        "active": list_active_deployments(deployments),
        "page": page,
        "can_return": {row.pk for row in page.items if redeployments.can_redeploy(row)},
        "events": list_newest_events(request.user, service),
    }
    return render(request, "inventory/dashboards/dashboard.html", context)


@require_sign_in
@require_safe
def compare_deployments_page(request: PageRequest, pk: int) -> HttpResponse:
    """Show the differences between two deployments of a service."""
    service = _get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    old, new = (_get_deployment(deployments, request.GET.get(name, "")) for name in ("from", "to"))
    context = {"service": service, "found": compare_deployments(old, new) if old and new else None}
    return render(request, "inventory/dashboards/compare.html", context)


@require_sign_in
@require_get_or_post
def redeploy_page(request: PageRequest, pk: int, deployment: int) -> HttpResponse:
    """Confirm a redeployment, with its differences."""
    service = _get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    target = _get_deployment(deployments, str(deployment))
    if target is None:
        raise NotVisible("This deployment of the service does not exist.")
    require(request.user, "core_pipeline_execute", target.execution.pipeline)
    problem = ""
    if request.method == "POST":
        try:
            execution = redeployments.redeploy(actor=request.user, deployment=target)
        except Problem as error:
            problem = error.detail
        else:
            return redirect("execution", pk=execution.pk)
    current = get_latest_deployment(deployments, target)
    context = {
        "service": service,
        "target": target,
        "now": current,
        "found": compare_deployments(current, target) if current and current.pk != target.pk else None,
        "others": [stage.values for stage in target.execution.stages.all() if stage.pk != target.pk],
        "can": redeployments.can_redeploy(target),
        "problem": problem,
    }
    return render(request, "inventory/dashboards/return.html", context, status=409 if problem else 200)


def _get_service(request: PageRequest, pk: int) -> Service:
    return get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope", "artifact"), pk=pk)


def _get_deployment(deployments: QuerySet[StageExecution], text: str) -> StageExecution | None:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_KEY_DIGITS):
        return None
    return deployments.filter(pk=int(text)).first()


@require_sign_in
@require_safe
def show_environment_matrix(request: PageRequest) -> HttpResponse:
    """Show the services of the chosen scope by environment."""
    services = list_visible(request, "core_service_view", Service.objects.select_related("scope"))
    query = read_search_text(request)
    page = paginate_queryset(services.filter(build_name_filter(query)), request)
    context = {"page": page, "matrix": build_environment_matrix(request.user, page.items), "typed": query}
    return render(request, "inventory/dashboards/matrix.html", context)
