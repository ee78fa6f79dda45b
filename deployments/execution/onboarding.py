"""Onboarding steps from an empty project to the first run."""

from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Model
from django.urls import reverse

from catalog.models import Environment, Infrastructure, Service
from connectors.models import Connector
from pipelines.models import Pipeline
from rbac.models import Scope
from rbac.policy import Principal, filter_visible, get_permissions


@dataclass(frozen=True)
class OnboardingStep:
    """Step of the onboarding; `url` is its page, empty without permission or before earlier steps."""

    title: str
    text: str
    url: str
    is_done: bool = False
    is_next: bool = False


def list_onboarding_steps(scope: Scope, principal: Principal) -> list[OnboardingStep]:
    """Return the steps to a first deployment in `scope`, with their state and pages.

    Resources of the scopes above count too.
    """
    rights = get_permissions(principal, scope)
    environment = _first(Environment, scope, principal)
    pipeline = _first(Pipeline, scope, principal)
    stops = [
        OnboardingStep(
            "Connect an AWS account",
            "A connector holds the credentials. It is tested when it is saved.",
            _find_url("core_connector_edit" in rights, "new-connector"),
            _first(Connector, scope, principal) is not None,
        ),
        OnboardingStep(
            "Create a service",
            "A service has an image, a task definition and a service definition.",
            _find_url("core_service_edit" in rights, "new-service"),
            _first(Service, scope, principal) is not None,
        ),
        OnboardingStep(
            "Create an environment",
            "An environment, such as development or production, has its own variables.",
            _find_url("core_environment_edit" in rights, "new-environment"),
            environment is not None,
        ),
        OnboardingStep(
            "Add an infrastructure",
            "An infrastructure is a connector, a region and a cluster.",
            _find_url(environment and "core_environment_edit" in rights, "new-infrastructure", environment),
            _first(Infrastructure, scope, principal) is not None,
        ),
        OnboardingStep(
            "Create a pipeline",
            "Start from a template that uses your service and infrastructure.",
            _find_url("core_pipeline_edit" in rights, "new-pipeline"),
            pipeline is not None,
        ),
        OnboardingStep(
            "Run the pipeline",
            "Review the plan before the run starts.",
            _find_url(pipeline and "core_pipeline_execute" in rights, "run-pipeline", pipeline),
        ),
    ]
    next_index = next(index for index, step in enumerate(stops) if not step.is_done)
    return [replace(step, is_next=index == next_index) for index, step in enumerate(stops)]


_VIEW_PERMISSIONS: dict[type[Model], str] = {
    Connector: "core_connector_view",
    Service: "core_service_view",
    Environment: "core_environment_view",
    Infrastructure: "core_environment_view",
    Pipeline: "core_pipeline_view",
}


def _first(model: type[Model], scope: Scope, principal: Principal) -> Any:
    """Return the first usable row in a scope, or None."""
    path = f"{getattr(model, 'SCOPE_PATH', 'scope')}__path__in"
    rows = filter_visible(principal, _VIEW_PERMISSIONS[model], model._default_manager.only("pk"))
    return rows.filter(**{path: scope.ancestor_paths()}).order_by("pk").first()


def _find_url(is_possible: object, name: str, thing: Model | None = None) -> str:
    if not is_possible:
        return ""
    return reverse(name, args=[thing.pk] if thing else [])
