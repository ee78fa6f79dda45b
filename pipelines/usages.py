"""Usages of connectors, secrets and files by services, overrides and pipelines."""

from collections.abc import Callable, Iterable, Iterator

from django.db.models import TextField
from django.db.models.functions import Cast
from django.urls import reverse

from catalog.manifests.locations import is_remote, load_named_connectors
from catalog.manifests.manifest_files import is_referred_to
from catalog.models import Manifest, ServiceOverride
from catalog.overrides.override_sets import build_manifest_row, get_deeper_scope
from catalog.usages import build_override_uses, build_service_uses
from connectors.models import Connector, FileNode, Secret
from connectors.queries import SecretNotFound, find_connector, find_secret
from connectors.usages import ResourceUsage, ResourceUsages, UsableResource, register_usage_finder
from pipelines.definition.parser import (
    InvalidPipelineError,
    StepSpec,
    parse_pipeline,
)
from pipelines.definition.step_manifest_sources import list_files, list_sources
from pipelines.definition.step_references import list_step_connectors, list_step_secrets
from pipelines.models import Pipeline
from rbac.models import Scope
from rbac.policy import Principal, build_below_filter, filter_visible

# Reading a pipeline takes milliseconds; a page does not read more of them than this.
MOST_SCANNED_PIPELINES = 200


def build_pipeline_uses(
    scope: Scope, text: str, uses: Callable[[Scope, Iterator[StepSpec]], bool], principal: Principal
) -> ResourceUsages:
    """Return the usages by pipelines at or below a scope; only those whose text has `text` are parsed."""
    near = Pipeline.objects.filter(build_below_filter(scope, "scope"), yaml__contains=text)
    read = near.select_related("scope").order_by("scope__path", "identifier")[:MOST_SCANNED_PIPELINES]
    found = [one.pk for one in read if uses(one.scope, _list_steps(one))]
    pipelines = Pipeline.objects.filter(pk__in=found).select_related("scope")
    seen = filter_visible(principal, "core_pipeline_view", pipelines).order_by("scope__path", "identifier")
    shown = tuple(ResourceUsage(f"pipeline {one.name}", reverse("pipeline", args=[one.pk])) for one in seen)
    return ResourceUsages(shown, hidden=len(found) - len(shown))


def _list_steps(pipeline: Pipeline) -> Iterator[StepSpec]:
    """Return the steps of a pipeline, including rollback steps; empty if it cannot be parsed."""
    try:
        stages = parse_pipeline(pipeline.yaml).stages
    except InvalidPipelineError:
        return
    for stage in stages:
        yield from (*stage.steps, *stage.rollback_steps)


@register_usage_finder
def find_services_by_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the services with manifests behind a connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()
    named = Manifest.objects.filter(
        build_below_filter(thing.scope, "service__scope"), place__connector=thing.identifier
    )
    found = {
        one.service_id
        for one in named.select_related("service__scope")
        if _is_connector_named(thing, one.service.scope, [build_manifest_row(one)])
    }
    return build_service_uses(found, principal)


@register_usage_finder
def find_overrides_by_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the overrides with manifests behind a connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()
    found = set(_list_overrides(thing))
    return build_override_uses(found, principal)


@register_usage_finder
def find_pipelines_by_manifest_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step whose manifest is behind a connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        return _is_connector_named(
            thing, scope, [row for one in steps for row in list_sources(one.type, one.spec)]
        )

    return build_pipeline_uses(thing.scope, thing.identifier, names, principal)


def _list_overrides(connector: Connector) -> Iterator[int]:
    written = ServiceOverride.objects.annotate(written=Cast("manifests", TextField()))
    rows = written.filter(written__contains=f'"{connector.identifier}"')
    for one in rows.select_related("environment__scope", "service__scope"):
        if _is_connector_named(
            connector, get_deeper_scope(one.environment.scope, one.service.scope), one.manifests
        ):
            yield one.pk


def _is_connector_named(connector: Connector, scope: Scope, rows: Iterable[dict[str, object]]) -> bool:
    remote = [row for row in rows if is_remote(row)]
    return any(one == connector for one in load_named_connectors(scope, remote).values())


@register_usage_finder
def find_pipelines_by_file(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that uses this file, or a file in this folder."""
    if not isinstance(thing, FileNode):
        return ResourceUsages()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = (ref for step in steps for ref in list_files(step.type, step.spec))
        return any(is_referred_to(ref, scope, thing) for ref in refs)

    # The first folder of its path.
    begin = "/" + thing.path.split("/")[1]
    return build_pipeline_uses(thing.scope, begin, names, principal)


@register_usage_finder
def find_pipelines_by_step_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that references this connector."""
    if not isinstance(thing, Connector) or thing.kind == Connector.Kind.AWS:
        return ResourceUsages()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        named = {one for step in steps for one in list_step_connectors(step.type, step.spec)}
        return any(find_connector(scope, *one) == thing for one in named)

    return build_pipeline_uses(thing.scope, thing.identifier, names, principal)


@register_usage_finder
def find_pipelines_by_secret(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that uses this secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()

    def names(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = {ref for step in steps for ref in list_step_secrets(step.type, step.spec)}
        return any(_is_same_secret(scope, ref, thing) for ref in refs)

    return build_pipeline_uses(thing.scope, thing.identifier, names, principal)


def _is_same_secret(scope: Scope, ref: str, secret: Secret) -> bool:
    try:
        return find_secret(scope, ref) == secret
    except SecretNotFound:
        return False
