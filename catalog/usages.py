"""Usages of services, environments, infrastructures and overrides, with registries of usage finders.

Pipelines are a layer above the catalog; `config.wiring` registers their functions here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from catalog.models import Environment, Infrastructure, Service, ServiceOverride
from connectors.usages import ResourceUsage, ResourceUsages
from rbac.models import User
from rbac.policy import Principal, filter_visible
from web.http.problems import ResourceInUse

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
        shown = (ResourceUsage(one.name, reverse("pipeline", args=[one.pk])) for one in self.visible)
        return ResourceUsages(tuple(shown), self.hidden)

    def __str__(self) -> str:
        named = [f"pipeline {one.name}" for one in self.visible[:MOST_NAMED_PIPELINES]]
        rest = len(self.visible) - len(named) + self.hidden
        return " and ".join(part for part in (", ".join(named), f"{rest} more" if rest else "") if part)


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
    found = [find(thing, principal) for find in _usage_finders]
    return PipelineUsage(
        tuple(user for one in found for user in one.visible), sum(one.hidden for one in found)
    )


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


def build_service_uses(found: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of services from their keys."""
    services = Service.objects.filter(pk__in=found).select_related("scope")
    visible = filter_visible(principal, "core_service_view", services).order_by("scope__path", "identifier")
    shown = tuple(ResourceUsage(f"service {one.name}", reverse("service", args=[one.pk])) for one in visible)
    return ResourceUsages(shown, hidden=len(found) - len(shown))


def build_override_uses(found: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of overrides from their keys; visible with access to both service and environment."""
    services = filter_visible(principal, "core_service_view", Service.objects.all())
    rows = ServiceOverride.objects.filter(pk__in=found, service__in=services)
    visible = filter_visible(
        principal, "core_environment_view", rows.select_related("service", "environment")
    )
    shown = tuple(
        ResourceUsage(
            f"override of {one.service.name} in {one.environment.name}",
            reverse("service-in-environment", args=[one.environment_id, one.service_id]),
        )
        for one in visible.order_by("environment__name", "pk")
    )
    return ResourceUsages(shown, hidden=len(found) - len(shown))
