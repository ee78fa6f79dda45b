"""Pages of environments: the list with their state, and one environment."""

from typing import Final

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Environment
from catalog.pages.environments import get_environment, list_deployable_services, list_overrides
from catalog.usages import find_pipeline_usage
from connectors.models import Connector
from deployments.freezes.environment_freezes import load_environment_freezes
from deployments.freezes.operations import can_view_freezes
from inventory.dashboards.drift_summaries import list_environment_drift
from inventory.dashboards.environment_list import (
    ENVIRONMENT_FILTERS,
    filter_environments_by_state,
    list_environment_states,
)
from inventory.queries.daemons import count_daemons
from rbac.models import Scope
from rbac.policy import can_anywhere, get_permissions
from web.clock import get_database_time
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_permitted_ids,
    list_visible,
    require_sign_in,
)

VIEW_ENVIRONMENT: Final = "core_environment_view"


@require_sign_in
@require_safe
def list_environments(request: PageRequest) -> HttpResponse:
    """List environments with health, last deployment, freeze and drift."""
    options = read_list_options(request, ENVIRONMENT_FILTERS)
    scope, now = request.current_scope or Scope.objects.account(), get_database_time()
    freezes = load_environment_freezes(scope, now)
    environments = list_visible(request, VIEW_ENVIRONMENT, Environment.objects.select_related("scope"))
    environments = filter_environments_by_state(environments, freezes, options.filter)
    page = paginate_list(environments.filter(build_name_filter(options.text)), request, options)
    context = {
        "page": page,
        "states": list_environment_states(request.user, page.items, freezes, now),
        "options": options,
        "may_add": can_anywhere(request.user, "core_environment_edit"),
        "may_view_freezes": can_view_freezes(request.user, scope),
        "topics": get_list_topics(request, "executions", "instances"),
    }
    return render(request, "inventory/dashboards/environments.html", context)


@require_sign_in
@require_safe
def show_environment(request: PageRequest, pk: int) -> HttpResponse:
    """Show an environment: infrastructures, variables, and services with drift and overrides."""
    environment = get_environment(request, pk)
    services = list(list_deployable_services(request, environment))
    drift = list_environment_drift(environment, services, get_database_time())
    places = list(environment.infrastructures.select_related("connector").order_by("identifier"))
    connectors = [place.connector for place in places]
    daemon_counts = count_daemons(places)
    content = {
        "environment": environment,
        "places": [(place, daemon_counts.get(place.pk, 0)) for place in places],
        "viewable_connectors": get_permitted_ids(request, "core_connector_view", Connector, connectors),
        "overrides": list_overrides(request, environment),
        "services": [(service, drift.get(service.pk, ())) for service in services],
        "used_by": find_pipeline_usage(environment, request.user),
        "rights": get_permissions(request.user, environment),
    }
    return render(request, "catalog/environments/detail.html", content)
