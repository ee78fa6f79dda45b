"""Records that the deployments of a delegate leave in projects, with what they made in AWS."""

from dataclasses import replace

from django.db.models import Q, QuerySet

from catalog.models import Infrastructure
from delegates.install.plan import SpecPlan
from delegates.installations import DelegateInstallation
from delegates.models import Delegate
from delegates.operations.installation import build_spec_request
from deployments.delegate_installs.documents import build_deployed_plan, creates_task_role


def build_identifier(delegate: Delegate) -> str:
    """Return the identifier of the resources with which Slipway deploys a delegate."""
    return f"slipway_delegate_{delegate.pk}"


def build_secret_identifier(delegate: Delegate) -> str:
    """Return the identifier of the secret with the token in the project."""
    return f"{build_identifier(delegate)}_token"


def build_stack_name(delegate: Delegate) -> str:
    """Return the name of the stack with roles, secret and log group."""
    return f"slipway-delegate-{delegate.name}"


def list_installation_places(delegate: Delegate) -> QuerySet[Infrastructure]:
    """Return the infrastructures where Slipway deployed a delegate, the newest first."""
    path = delegate.scope.path
    below = Q(environment__scope__path=path) | Q(environment__scope__path__startswith=f"{path}/")
    places = Infrastructure.objects.filter(below, environment__identifier=build_identifier(delegate))
    return places.select_related("environment__scope", "connector__scope").order_by("-pk")


def list_delegate_installations(delegate: Delegate) -> list[DelegateInstallation]:
    """Return where Slipway deployed a delegate, the newest first, by its infrastructures."""
    return [_build_installation(delegate, place) for place in list_installation_places(delegate)]


def _build_installation(delegate: Delegate, place: Infrastructure) -> DelegateInstallation:
    request = build_spec_request(delegate)
    deployed = build_deployed_plan(replace(request, cluster=place.cluster, region=place.region))
    parts = ["secret with the token", "execution role"]
    if creates_task_role(deployed):
        parts.append("task role")
    if not request.log_group:
        parts.append(f"log group {deployed.log_group}")
    return DelegateInstallation(
        project=place.environment.scope,
        connector=place.connector,
        plan=SpecPlan(deployed.request),
        stack=build_stack_name(delegate),
        stack_parts=tuple(parts),
        identifier=build_identifier(delegate),
        secret=build_secret_identifier(delegate),
    )
