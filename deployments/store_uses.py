"""Which manifests lie where a connector leads: services and overrides that name it."""

from collections.abc import Iterable, Iterator

from django.db.models import TextField
from django.db.models.functions import Cast
from django.urls import reverse

from connectors.models import Connector
from connectors.uses import Thing, Use, Uses, uses
from deployments.manifests.places import is_remote
from deployments.models import Manifest, Service, ServiceOverride
from deployments.overriding import deeper, row_of
from deployments.store_connectors import named_connectors
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to


@uses
def services_from(thing: Thing, principal: Principal) -> Uses:
    """The services with manifests that a connector leads to."""
    if not isinstance(thing, Connector):
        return Uses()
    named = Manifest.objects.filter(
        at_or_below(thing.scope, "service__scope"), place__connector=thing.identifier
    )
    found = {
        one.service_id
        for one in named.select_related("service__scope")
        if _means(thing, one.service.scope, [row_of(one)])
    }
    services = Service.objects.filter(pk__in=found)
    seen = visible_to(principal, "core_service_view", services).order_by("scope__path", "identifier")
    shown = tuple(Use(f"service {one.name}", reverse("service", args=[one.pk])) for one in seen)
    return Uses(shown, hidden=len(found) - len(shown))


@uses
def overrides_from(thing: Thing, principal: Principal) -> Uses:
    """The overrides with manifests that a connector leads to."""
    if not isinstance(thing, Connector):
        return Uses()
    found = set(_overrides_of(thing))
    services = visible_to(principal, "core_service_view", Service.objects.all())
    rows = ServiceOverride.objects.filter(pk__in=found, service__in=services)
    seen = visible_to(principal, "core_environment_view", rows.select_related("service", "environment"))
    shown = tuple(
        Use(
            f"override of {one.service.name} in {one.environment.name}",
            reverse("service-in-environment", args=[one.environment_id, one.service_id]),
        )
        for one in seen.order_by("environment__name", "pk")
    )
    return Uses(shown, hidden=len(found) - len(shown))


def _overrides_of(connector: Connector) -> Iterator[int]:
    written = ServiceOverride.objects.annotate(written=Cast("manifests", TextField()))
    rows = written.filter(written__contains=f'"{connector.identifier}"')
    for one in rows.select_related("environment__scope", "service__scope"):
        if _means(connector, deeper(one.environment.scope, one.service.scope), one.manifests):
            yield one.pk


def _means(connector: Connector, scope: Scope, rows: Iterable[dict[str, object]]) -> bool:
    remote = [row for row in rows if is_remote(row)]
    return any(one == connector for one in named_connectors(scope, remote).values())
