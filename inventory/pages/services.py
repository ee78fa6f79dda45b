"""Pages of services: the environment matrix, the dashboard, and comparison."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from catalog.models import Service
from inventory.dashboards.deployment_differences import compare_deployments
from inventory.dashboards.drift_summaries import summarize_drift
from inventory.dashboards.environment_matrix import build_environment_matrix
from inventory.dashboards.rollback_plans import can_redeploy
from inventory.dashboards.running_services import can_see_every_environment, list_running_services
from inventory.dashboards.service_list import (
    SERVICE_FILTERS,
    filter_services_by_state,
    list_service_states,
)
from inventory.queries.service_deployments import (
    get_deployment,
    list_active_deployments,
    list_newest_events,
    list_service_deployments,
)
from inventory.sync.watched_services import record_view
from rbac.policy import can_anywhere, get_permissions_anywhere
from web.clock import get_database_time
from web.forms.lists import build_name_filter, paginate_list, read_list_options, read_search_text
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_visible,
    list_visible,
    require_sign_in,
)
from web.http.pagination import paginate_queryset

VIEW_SERVICE: Final = "core_service_view"
PAGE_SIZE: Final = 20


@require_sign_in
@require_safe
def list_services(request: PageRequest) -> HttpResponse:
    """List services with health, versions, last deployment and drift."""
    options = read_list_options(request, SERVICE_FILTERS)
    services = list_visible(request, VIEW_SERVICE, Service.objects.select_related("scope"))
    services = filter_services_by_state(services, request.user, options.filter)
    page = paginate_list(services.filter(build_name_filter(options.text)), request, options)
    context = {
        "page": page,
        "states": list_service_states(request.user, page.items, get_database_time()),
        "options": options,
        "may_add": can_anywhere(request.user, "core_service_edit"),
        "may_import": can_anywhere(request.user, "core_pipeline_edit"),
        "topics": get_list_topics(request, "executions", "instances"),
    }
    return render(request, "inventory/dashboards/services.html", context)


@require_sign_in
@require_safe
def show_dashboard(request: PageRequest, pk: int) -> HttpResponse:
    """Show the dashboard of one service."""
    service = get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    page = paginate_queryset(deployments, request, size=PAGE_SIZE)
    running_services = list_running_services(request.user, [service], detailed=True, drawn=True)
    now = get_database_time()
    permissions = get_permissions_anywhere(request.user)
    may_run = "core_pipeline_execute" in permissions
    record_view([row.ecs_service for row in running_services], timezone.now())
    context: dict[str, Any] = {
        "service": service,
        "places": [(row, summarize_drift(row.ecs_service, now)) for row in running_services],
        "active": list_active_deployments(deployments),
        "page": page,
        "can_return": {row.pk for row in page.items if may_run and can_redeploy(row)},
        "may_run": may_run,
        "may_change": "core_pipeline_edit" in permissions,
        "events": list_newest_events(request.user, service),
        "has_hidden_places": not can_see_every_environment(request.user, [service]),
    }
    return render(request, "inventory/dashboards/dashboard.html", context)


@require_sign_in
@require_safe
def compare_deployments_page(request: PageRequest, pk: int) -> HttpResponse:
    """Show the differences between two deployments of a service."""
    service = get_service(request, pk)
    deployments = list_service_deployments(request.user, service)
    old, new = (get_deployment(deployments, request.GET.get(name, "")) for name in ("from", "to"))
    context = {"service": service, "found": compare_deployments(old, new) if old and new else None}
    return render(request, "inventory/dashboards/compare.html", context)


def get_service(request: PageRequest, pk: int) -> Service:
    """Return the service of an address. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope", "artifact"), pk=pk)


@require_sign_in
@require_safe
def show_environment_matrix(request: PageRequest) -> HttpResponse:
    """Show the services of the chosen scope by environment."""
    services = list_visible(request, "core_service_view", Service.objects.select_related("scope"))
    query = read_search_text(request)
    page = paginate_queryset(services.filter(build_name_filter(query)), request)
    context = {
        "page": page,
        "matrix": build_environment_matrix(request.user, page.items),
        "typed": query,
        "has_hidden_places": not can_see_every_environment(request.user, page.items),
    }
    return render(request, "inventory/dashboards/matrix.html", context)
