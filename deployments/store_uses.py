"""Which manifests lie where a connector leads: services, overrides and steps that name it."""

from collections.abc import Iterable, Iterator

from django.db.models import TextField
from django.db.models.functions import Cast
from django.urls import reverse

from connectors.models import Connector
from connectors.uses import Thing, Use, Uses, uses
from deployments.manifests.places import is_remote
from deployments.models import Manifest, Pipeline, Service, ServiceOverride
from deployments.overriding import deeper, row_of
from deployments.pipelines import BadPipelineError, read_pipeline
from deployments.step_sources import sources_of
from deployments.store_connectors import named_connectors
from rbac.models import Scope
from rbac.policy import Principal, at_or_below, visible_to

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_READ = 200


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


@uses
def pipelines_from(thing: Thing, principal: Principal) -> Uses:
    """The pipelines with a step whose own manifest a connector leads to."""
    if not isinstance(thing, Connector):
        return Uses()
    near = Pipeline.objects.filter(at_or_below(thing.scope, "scope"), yaml__contains=thing.identifier)
    read = near.select_related("scope").order_by("scope__path", "identifier")[:MOST_READ]
    pipelines = Pipeline.objects.filter(pk__in=[one.pk for one in read if _is_named_in(one, thing)])
    seen = visible_to(principal, "core_pipeline_view", pipelines.select_related("scope"))
    shown = tuple(
        Use(f"pipeline {one.name}", reverse("pipeline", args=[one.pk]))
        for one in seen.order_by("scope__path", "identifier")
    )
    return Uses(shown, hidden=len(pipelines) - len(shown))


def _is_named_in(pipeline: Pipeline, connector: Connector) -> bool:
    try:
        stages = read_pipeline(pipeline.yaml).stages
    except BadPipelineError:
        return False
    steps = (step for stage in stages for step in (*stage.steps, *stage.rollback_steps))
    return _means(connector, pipeline.scope, [row for one in steps for row in sources_of(one.type, one.spec)])


def _overrides_of(connector: Connector) -> Iterator[int]:
    written = ServiceOverride.objects.annotate(written=Cast("manifests", TextField()))
    rows = written.filter(written__contains=f'"{connector.identifier}"')
    for one in rows.select_related("environment__scope", "service__scope"):
        if _means(connector, deeper(one.environment.scope, one.service.scope), one.manifests):
            yield one.pk


def _means(connector: Connector, scope: Scope, rows: Iterable[dict[str, object]]) -> bool:
    remote = [row for row in rows if is_remote(row)]
    return any(one == connector for one in named_connectors(scope, remote).values())
