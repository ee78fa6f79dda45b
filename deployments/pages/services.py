"""The page of a service, with its manifests, environments and a form that deploys it."""

from typing import Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from catalog.models import Environment, Service
from catalog.pages.service_details import describe_image_source, describe_manifests, render_service_json
from catalog.pages.services import get_service
from catalog.usages import find_pipeline_usage
from deployments.pages.runs import build_deploy_form
from rbac.policy import filter_visible, get_permissions
from web.forms.pages import PageRequest, require_sign_in

# As many environments as a page lists beside a service.
MOST_ENVIRONMENTS: Final = 100


@require_sign_in
@require_safe
def service(request: PageRequest, pk: int) -> HttpResponse:
    """Show a service: its artifact, its manifests, its variables and its pipelines."""
    service = get_service(request, pk)
    users, artifact = find_pipeline_usage(service, request.user), getattr(service, "artifact", None)
    content = {
        "service": service,
        "manifests": describe_manifests(service),
        "image_source": describe_image_source(artifact.source) if artifact else [],
        "definition": render_service_json(service),
        "environments": _environments(request, service),
        "used_by": users,
        "deploy": build_deploy_form(request, service, users),
        "rights": get_permissions(request.user, service),
    }
    return render(request, "catalog/services/detail.html", content)


def _environments(request: PageRequest, service: Service) -> QuerySet[Environment]:
    """Return the environments to which a service can be deployed: in its scope, above and below."""
    path = service.scope.path
    near = Q(scope__path__in=service.scope.ancestor_paths()) | Q(scope__path__startswith=f"{path}/")
    environments = filter_visible(request.user, "core_environment_view", Environment.objects.filter(near))
    return environments.order_by("name", "pk")[:MOST_ENVIRONMENTS]
