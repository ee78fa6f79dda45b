"""Which manifests lie where a connector leads: services, overrides and steps that name it."""

from collections.abc import Iterable, Iterator

from django.db.models import TextField
from django.db.models.functions import Cast

from catalog.effective.resolution import deeper, row_of
from catalog.manifests.places import is_remote
from catalog.manifests.store_connectors import named_connectors
from catalog.models import Manifest, ServiceOverride
from catalog.usage import by_overrides, by_services
from connectors.models import Connector
from connectors.uses import Thing, Uses, uses
from pipelines.definition.parser import StepSpec
from pipelines.definition.step_sources import sources_of
from pipelines.usage import by_pipelines
from rbac.models import Scope
from rbac.policy import Principal, at_or_below


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
    return by_services(found, principal)


@uses
def overrides_from(thing: Thing, principal: Principal) -> Uses:
    """The overrides with manifests that a connector leads to."""
    if not isinstance(thing, Connector):
        return Uses()
    found = set(_overrides_of(thing))
    return by_overrides(found, principal)


@uses
def pipelines_from(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step whose own manifest a connector leads to."""
    if not isinstance(thing, Connector):
        return Uses()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        return _means(thing, scope, [row for one in steps for row in sources_of(one.type, one.spec)])

    return by_pipelines(thing.scope, thing.identifier, names, principal)


def _overrides_of(connector: Connector) -> Iterator[int]:
    written = ServiceOverride.objects.annotate(written=Cast("manifests", TextField()))
    rows = written.filter(written__contains=f'"{connector.identifier}"')
    for one in rows.select_related("environment__scope", "service__scope"):
        if _means(connector, deeper(one.environment.scope, one.service.scope), one.manifests):
            yield one.pk


def _means(connector: Connector, scope: Scope, rows: Iterable[dict[str, object]]) -> bool:
    remote = [row for row in rows if is_remote(row)]
    return any(one == connector for one in named_connectors(scope, remote).values())
