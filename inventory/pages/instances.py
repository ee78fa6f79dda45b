"""Pages of service instances, with the freshness of their clusters."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Environment, Infrastructure, Service
from deployments.models import Execution
from inventory.models.instances import ServiceInstance
from inventory.operations import sync
from inventory.queries import instances
from inventory.queries.freshness import list_cluster_freshness
from inventory.queries.instance_filters import build_instance_filter
from inventory.sync.retention import STOPPED_TASK_RETENTION
from rbac.policy import filter_visible
from web.clock import get_database_time
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_permitted_ids,
    get_visible,
    list_visible_from_large_table,
    require_sign_in,
)
from web.http.pagination import paginate_queryset
from web.http.problems import BadInput, Conflict

SHOW_RUNNING, SHOW_STOPPED = "", "stopped"
SHOW_CHOICES: Final = ((SHOW_RUNNING, "Running"), (SHOW_STOPPED, "Stopped"))
FILTER_NAMES: Final = ("environment", "origin", "q")
MAX_CHOICES: Final = 200
VIEW_PIPELINE: Final = "core_pipeline_view"


@require_sign_in
@require_safe
def list_instances(request: PageRequest) -> HttpResponse:
    """List the service instances of the chosen scope, newest first."""
    # Who sees an environment sees what runs there: asked once for the list and all that stands around it.
    here = _list_environments(request)
    running = ServiceInstance.objects.filter(ecs_service__infrastructure__environment__in=list(here))
    found = instances.select_instance_relations(running.filter(stopped_at__isnull=not _is_stopped(request)))
    places = Infrastructure.objects.filter(environment__in=list(here))
    return _render_instances(request, found, places, here, service=None)


@require_sign_in
@require_safe
def list_service_instances_page(request: PageRequest, pk: int) -> HttpResponse:
    """List the service instances of one service, newest first."""
    service = get_visible(request, instances.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
    found = instances.list_service_instances(request.user, service, stopped=_is_stopped(request))
    used = Infrastructure.objects.filter(ecs_service_records__service=service).distinct()
    places = filter_visible(request.user, instances.VIEW_ENVIRONMENT, used)
    return _render_instances(request, found, places, _list_environments(request), service=service)


@require_sign_in
@require_POST
def request_sync(request: PageRequest, pk: int) -> HttpResponse:
    """Have the cluster of an infrastructure looked at now, and go back to where that was asked."""
    rows = Infrastructure.objects.select_related("environment__scope", "connector")
    place = get_visible(request, instances.VIEW_ENVIRONMENT, rows, pk=pk)
    try:
        sync.sync_infrastructure(actor=request.user, infrastructure=place)
    except Conflict as problem:
        messages.error(request, problem.detail)
    return redirect(_get_return_url(request))


def _get_return_url(request: PageRequest) -> str:
    asked = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None) and asked.startswith("/")
    return asked if ours else reverse("instances")


def _is_stopped(request: PageRequest) -> bool:
    return request.GET.get("show") == SHOW_STOPPED


def _render_instances(
    request: PageRequest,
    found: QuerySet[ServiceInstance],
    places: QuerySet[Infrastructure],
    environments: Mapping[int, str],
    *,
    service: Service | None,
) -> HttpResponse:
    typed, problem = {name: request.GET.get(name, "") for name in FILTER_NAMES}, ""
    try:
        found = found.filter(build_instance_filter(typed))
    except BadInput as bad:
        problem = "; ".join(f"{one['path']} {one['message']}" for one in bad.errors or ())
        found = found.none()
    shown = paginate_queryset(found, request, order="created_at")
    context: Mapping[str, Any] = {
        "page": shown,
        "opens": _list_viewable_keys(request, shown.items),
        "service": service,
        "topics": get_list_topics(request, "instances") if service is None else f"instances-of:{service.pk}",
        "choices": SHOW_CHOICES,
        "chosen": SHOW_STOPPED if _is_stopped(request) else SHOW_RUNNING,
        "pictures": list_cluster_freshness(request.user, places, get_database_time()),
        "typed": typed,
        "problem": problem,
        "is_narrowed": any(typed.values()),
        "origins": ServiceInstance.Origin.choices,
        "environments": sorted(set(environments.values()))[:MAX_CHOICES],
        "kept_days": STOPPED_TASK_RETENTION.days,
    }
    return render(request, "inventory/sync/list.html", context)


def _list_viewable_keys(request: PageRequest, rows: Iterable[ServiceInstance]) -> Mapping[str, Any]:
    """The keys of services and executions that the reader may look at; two queries for a list."""
    listed = list(rows)
    services = [one.ecs_service.service for one in listed if one.ecs_service and one.ecs_service.service]
    executions = [one.execution for one in listed if one.execution]
    return {
        "services": get_permitted_ids(request, instances.VIEW_SERVICE, Service, services),
        "executions": get_permitted_ids(request, VIEW_PIPELINE, Execution, executions),
    }


def _list_environments(request: PageRequest) -> dict[int, str]:
    """The environments that the reader sees in the chosen scope: their identifiers by key."""
    rows = list_visible_from_large_table(request, instances.VIEW_ENVIRONMENT, Environment.objects.all())
    return dict(rows.values_list("pk", "identifier"))
