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
from inventory.retention import STOPPED_TASK_RETENTION
from rbac.policy import filter_visible
from web.clock import get_database_time
from web.forms.pages import (
    PageRequest,
    get_list_topics,
    get_permitted_ids,
    get_visible,
    list_visible,
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
    # An environment's visibility covers its instances, so permissions are checked once.
    environments = _list_environments(request)
    running = ServiceInstance.objects.filter(ecs_service__infrastructure__environment__in=list(environments))
    rows = instances.select_instance_relations(running.filter(stopped_at__isnull=not _is_stopped(request)))
    infrastructures = Infrastructure.objects.filter(environment__in=list(environments))
    return _render_instances(request, rows, infrastructures, environments, service=None)


@require_sign_in
@require_safe
def list_service_instances_page(request: PageRequest, pk: int) -> HttpResponse:
    """List the service instances of one service, newest first."""
    service = get_visible(request, instances.VIEW_SERVICE, Service.objects.select_related("scope"), pk=pk)
    rows = instances.list_service_instances(request.user, service, stopped=_is_stopped(request))
    used_infrastructures = Infrastructure.objects.filter(ecs_service_records__service=service).distinct()
    infrastructures = filter_visible(request.user, instances.VIEW_ENVIRONMENT, used_infrastructures)
    return _render_instances(request, rows, infrastructures, _list_environments(request), service=service)


@require_sign_in
@require_POST
def request_sync(request: PageRequest, pk: int) -> HttpResponse:
    """Request a sync of the infrastructure's cluster, and return to the page before."""
    rows = Infrastructure.objects.select_related("environment__scope", "connector")
    infrastructure = get_visible(request, instances.VIEW_ENVIRONMENT, rows, pk=pk)
    try:
        sync.sync_infrastructure(actor=request.user, infrastructure=infrastructure)
    except Conflict as problem:
        messages.error(request, problem.detail)
    return redirect(_get_return_url(request))


def _get_return_url(request: PageRequest) -> str:
    url = request.POST.get("next", "")
    is_local = url_has_allowed_host_and_scheme(url, allowed_hosts=None) and url.startswith("/")
    return url if is_local else reverse("instances")


def _is_stopped(request: PageRequest) -> bool:
    return request.GET.get("show") == SHOW_STOPPED


def _render_instances(
    request: PageRequest,
    rows: QuerySet[ServiceInstance],
    infrastructures: QuerySet[Infrastructure],
    environments: Mapping[int, str],
    *,
    service: Service | None,
) -> HttpResponse:
    values, problem = {name: request.GET.get(name, "") for name in FILTER_NAMES}, ""
    try:
        rows = rows.filter(build_instance_filter(values))
    except BadInput as error:
        problem = "; ".join(f"{item['path']} {item['message']}" for item in error.errors or ())
        rows = rows.none()
    page = paginate_queryset(rows, request, order="created_at")
    context: Mapping[str, Any] = {
        "page": page,
        "opens": _list_viewable_keys(request, page.items),
        "service": service,
        "topics": get_list_topics(request, "instances") if service is None else f"instances-of:{service.pk}",
        "choices": SHOW_CHOICES,
        "chosen": SHOW_STOPPED if _is_stopped(request) else SHOW_RUNNING,
        "pictures": list_cluster_freshness(request.user, infrastructures, get_database_time()),
        "typed": values,
        "problem": problem,
        "is_narrowed": any(values.values()),
        "origins": ServiceInstance.Origin.choices,
        "environments": sorted(set(environments.values()))[:MAX_CHOICES],
        "kept_days": STOPPED_TASK_RETENTION.period.days if STOPPED_TASK_RETENTION.period else None,
    }
    return render(request, "inventory/sync/list.html", context)


def _list_viewable_keys(request: PageRequest, rows: Iterable[ServiceInstance]) -> Mapping[str, Any]:
    """Return the viewable services and executions of a list; two queries."""
    instance_rows = list(rows)
    services = [
        row.ecs_service.service for row in instance_rows if row.ecs_service and row.ecs_service.service
    ]
    executions = [row.execution for row in instance_rows if row.execution]
    return {
        "services": get_permitted_ids(request, instances.VIEW_SERVICE, Service, services),
        "executions": get_permitted_ids(request, VIEW_PIPELINE, Execution, executions),
    }


def _list_environments(request: PageRequest) -> dict[int, str]:
    """Return the visible environments of the chosen scope: identifiers by key."""
    rows = list_visible(request, instances.VIEW_ENVIRONMENT, Environment.objects.all())
    return dict(rows.values_list("pk", "identifier"))
