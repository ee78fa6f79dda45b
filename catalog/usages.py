"""Usages of services, environments, infrastructures and overrides, with registries of usage finders.

Pipelines are a layer above the catalog; `config.wiring` registers their functions here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from catalog.models import Environment, Infrastructure, Service, ServiceOverride
from rbac.models import User
from rbac.policy import Principal, filter_visible
from web.http.problems import ResourceInUse
from web.usages import ResourceUsage, ResourceUsages

MOST_NAMED_PIPELINES = 5


@dataclass(frozen=True)
class PipelineUsage:
    """The visible pipelines that reference something, and the number of the others."""

    visible: tuple[Any, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.visible or self.hidden)

    def to_links(self) -> ResourceUsages:
        """Return the pipelines as a page links to them."""
        usages = (
            ResourceUsage(pipeline.name, reverse("pipeline", args=[pipeline.pk])) for pipeline in self.visible
        )
        return ResourceUsages(tuple(usages), self.hidden)

    def __str__(self) -> str:
        names = [f"pipeline {pipeline.name}" for pipeline in self.visible[:MOST_NAMED_PIPELINES]]
        remaining = len(self.visible) - len(names) + self.hidden
        return " and ".join(
            part for part in (", ".join(names), f"{remaining} more" if remaining else "") if part
        )


UsageFinder = Callable[[Service | Environment | Infrastructure, Principal], PipelineUsage]
ServiceCheck = Callable[[Service, User], None]
_usage_finders: list[UsageFinder] = []
_service_checks: list[ServiceCheck] = []


def register_usage_finder(finder: UsageFinder) -> None:
    """Register a function that finds the users of a catalog resource."""
    _usage_finders.append(finder)


def register_service_check(check: ServiceCheck) -> None:
    """Register a check of a changed service; it raises `BadInput`."""
    _service_checks.append(check)


def find_pipeline_usage(thing: Service | Environment | Infrastructure, principal: Principal) -> PipelineUsage:
    """Return the pipelines that reference this resource."""
    usages = [find(thing, principal) for find in _usage_finders]
    return PipelineUsage(
        tuple(user for usage in usages for user in usage.visible), sum(usage.hidden for usage in usages)
    )


def describe_takeover(thing: Service | Environment, principal: Principal) -> str:
    """Return which pipelines use a new resource in place of one above it; empty if none do."""
    above = type(thing)._default_manager.filter(
        identifier=thing.identifier, scope__path__in=thing.scope.ancestor_paths()
    )
    if not above.exclude(pk=thing.pk).exists() or not (usage := find_pipeline_usage(thing, principal)):
        return ""
    return f"Used from now on in place of {thing.identifier} of a scope above: {usage}."


def require_unused(thing: Service | Environment | Infrastructure, principal: Principal) -> None:
    """Raise `ResourceInUse` if something references the resource."""
    if usage := find_pipeline_usage(thing, principal):
        raise ResourceInUse(
            f"{thing.name} is still in use by {usage}. Change these first, or confirm the deletion."
        )


def require_deployable(service: Service, actor: User) -> None:
    """Raise `BadInput` if no run could deploy a service; call it inside the transaction of the change."""
    for check in _service_checks:
        check(service, actor)


def build_service_uses(service_ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of services from their keys."""
    services = Service.objects.filter(pk__in=service_ids).select_related("scope")
    visible = filter_visible(principal, "core_service_view", services).order_by("scope__path", "identifier")
    usages = tuple(
        ResourceUsage(f"service {service.name}", reverse("service", args=[service.pk])) for service in visible
    )
    return ResourceUsages(usages, hidden=len(service_ids) - len(usages))


def build_override_uses(override_ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of overrides from their keys; visible with access to both service and environment."""
    services = filter_visible(principal, "core_service_view", Service.objects.all())
    rows = ServiceOverride.objects.filter(pk__in=override_ids, service__in=services)
    visible = filter_visible(
        principal, "core_environment_view", rows.select_related("service", "environment")
    )
    usages = tuple(
        ResourceUsage(
            f"override of {override.service.name} in {override.environment.name}",
            reverse("service-in-environment", args=[override.environment_id, override.service_id]),
        )
        for override in visible.order_by("environment__name", "pk")
    )
    return ResourceUsages(usages, hidden=len(override_ids) - len(usages))
