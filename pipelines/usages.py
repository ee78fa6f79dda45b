"""Usages of connectors, secrets and files by services, overrides and pipelines."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from django.db.models import TextField
from django.db.models.functions import Cast
from django.urls import reverse

from catalog.manifests.locations import is_remote, load_named_connectors
from catalog.manifests.manifest_files import is_referred_to
from catalog.manifests.stores import get_store
from catalog.models import Manifest, ServiceOverride
from catalog.overrides.override_sets import build_manifest_row, get_deeper_scope
from catalog.usages import build_override_uses, build_service_uses
from connectors.models import Connector, FileNode, Secret
from connectors.queries import SecretNotFound, find_connector, find_secret
from connectors.usages import (
    ResourceUsage,
    ResourceUsages,
    UsableResource,
    register_usage_counter,
    register_usage_finder,
)
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

# Limit per page: parsing a pipeline takes milliseconds.
MOST_SCANNED_PIPELINES = 200


def build_pipeline_uses(
    scope: Scope, text: str, has_usage: Callable[[Scope, Iterator[StepSpec]], bool], principal: Principal
) -> ResourceUsages:
    """Return the usages by pipelines at or below a scope; only YAML that contains `text` is parsed."""
    rows = Pipeline.objects.filter(build_below_filter(scope, "scope"), yaml__contains=text)
    scanned_pipelines = rows.select_related("scope").order_by("scope__path", "identifier")[
        :MOST_SCANNED_PIPELINES
    ]
    ids = [pipeline.pk for pipeline in scanned_pipelines if has_usage(pipeline.scope, _list_steps(pipeline))]
    pipelines = Pipeline.objects.filter(pk__in=ids).select_related("scope")
    visible_pipelines = filter_visible(principal, "core_pipeline_view", pipelines).order_by(
        "scope__path", "identifier"
    )
    usages = tuple(
        ResourceUsage(f"pipeline {pipeline.name}", reverse("pipeline", args=[pipeline.pk]))
        for pipeline in visible_pipelines
    )
    return ResourceUsages(usages, hidden=len(ids) - len(usages))


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
    """Return the services that read manifests through this connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()
    named = Manifest.objects.filter(
        build_below_filter(thing.scope, "service__scope"), place__connector=thing.identifier
    )
    service_ids = {
        manifest.service_id
        for manifest in named.select_related("service__scope")
        if _is_connector_named(thing, manifest.service.scope, [build_manifest_row(manifest)])
    }
    return build_service_uses(service_ids, principal)


@register_usage_counter("service")
def count_services_by_connector(connectors: Sequence[Connector]) -> dict[int, int]:
    """Count the services with manifests behind each connector; two queries."""
    identifiers = sorted({connector.identifier for connector in connectors})
    rows = Manifest.objects.filter(place__connector__in=identifiers).select_related("service__scope")
    rows = rows.only("service__scope__path", "store", "place")
    candidates: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for connector in Connector.objects.filter(identifier__in=identifiers).select_related("scope"):
        candidates[connector.kind, connector.identifier][connector.scope.path] = connector.pk
    services: defaultdict[int, set[int]] = defaultdict(set)
    for manifest in rows:
        if not is_remote(build_manifest_row(manifest)):
            continue
        by_path = candidates[get_store(manifest.store).connector_kind, manifest.place["connector"]]
        # The nearest connector of the store's kind, as in `find_store_connector`.
        visible_paths = [path for path in manifest.service.scope.ancestor_paths() if path in by_path]
        if visible_paths:
            services[by_path[max(visible_paths, key=len)]].add(manifest.service_id)
    return {pk: len(keys) for pk, keys in services.items()}


@register_usage_finder
def find_overrides_by_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the overrides that read manifests through this connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()
    override_ids = set(_list_overrides(thing))
    return build_override_uses(override_ids, principal)


@register_usage_finder
def find_pipelines_by_manifest_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that reads its manifest through this connector."""
    if not isinstance(thing, Connector):
        return ResourceUsages()

    def has_usage(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        return _is_connector_named(
            thing, scope, [row for step in steps for row in list_sources(step.type, step.spec)]
        )

    return build_pipeline_uses(thing.scope, thing.identifier, has_usage, principal)


def _list_overrides(connector: Connector) -> Iterator[int]:
    overrides = ServiceOverride.objects.annotate(manifests_text=Cast("manifests", TextField()))
    rows = overrides.filter(manifests_text__contains=f'"{connector.identifier}"')
    for override in rows.select_related("environment__scope", "service__scope"):
        if _is_connector_named(
            connector,
            get_deeper_scope(override.environment.scope, override.service.scope),
            override.manifests,
        ):
            yield override.pk


def _is_connector_named(connector: Connector, scope: Scope, rows: Iterable[dict[str, object]]) -> bool:
    remote = [row for row in rows if is_remote(row)]
    return any(candidate == connector for candidate in load_named_connectors(scope, remote).values())


@register_usage_finder
def find_pipelines_by_file(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that uses this file, or a file in this folder."""
    if not isinstance(thing, FileNode):
        return ResourceUsages()

    def has_usage(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = (ref for step in steps for ref in list_files(step.type, step.spec))
        return any(is_referred_to(ref, scope, thing) for ref in refs)

    # Only pipelines with the first folder of its path are parsed.
    first_folder = "/" + thing.path.split("/")[1]
    return build_pipeline_uses(thing.scope, first_folder, has_usage, principal)


@register_usage_finder
def find_pipelines_by_step_connector(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that references this connector."""
    if not isinstance(thing, Connector) or thing.kind == Connector.Kind.AWS:
        return ResourceUsages()

    def has_usage(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        named = {reference for step in steps for reference in list_step_connectors(step.type, step.spec)}
        return any(find_connector(scope, *reference) == thing for reference in named)

    return build_pipeline_uses(thing.scope, thing.identifier, has_usage, principal)


@register_usage_finder
def find_pipelines_by_secret(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the pipelines with a step that uses this secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()

    def has_usage(scope: Scope, steps: Iterator[StepSpec]) -> bool:
        refs = {ref for step in steps for ref in list_step_secrets(step.type, step.spec)}
        return any(_is_same_secret(scope, ref, thing) for ref in refs)

    return build_pipeline_uses(thing.scope, thing.identifier, has_usage, principal)


def _is_same_secret(scope: Scope, ref: str, secret: Secret) -> bool:
    try:
        return find_secret(scope, ref) == secret
    except SecretNotFound:
        return False
