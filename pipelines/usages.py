"""Usages of connectors, secrets and files by pipelines, and of connectors by triggers."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from django.urls import reverse

from catalog.manifests.locations import is_remote
from catalog.manifests.manifest_files import is_referred_to
from catalog.manifests.stores import get_store
from connectors.models import Connector, FileNode, Secret
from connectors.queries import ConnectorIndex, SecretNotFound, find_secret
from connectors.usages import (
    UsableResource,
    UserKeys,
    group_connector_users,
    register_connector_users,
    register_usage_finder,
)
from pipelines.definition.parser import InvalidPipelineError, StepSpec, parse_pipeline
from pipelines.definition.step_manifest_sources import list_files, list_sources
from pipelines.definition.step_references import (
    ConnectorReference,
    list_step_connectors,
    list_step_secrets,
)
from pipelines.models import Pipeline, Trigger
from pipelines.triggers.kinds.image import CONNECTOR_KINDS, ImagePush
from pipelines.triggers.kinds.pipeline import PIPELINE, PipelineTrigger
from rbac.models import Scope
from rbac.policy import Principal, build_below_filter, filter_visible
from web.usages import ResourceUsage, ResourceUsages

_CACHED_PIPELINES: Final = 256
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
    ids = [
        pipeline.pk for pipeline in scanned_pipelines if has_usage(pipeline.scope, _list_steps(pipeline.yaml))
    ]
    return build_pipeline_links(ids, principal)


def build_pipeline_links(ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of pipelines from their keys."""
    pipelines = Pipeline.objects.filter(pk__in=ids).select_related("scope")
    visible_pipelines = filter_visible(principal, "core_pipeline_view", pipelines).order_by(
        "scope__path", "identifier"
    )
    usages = tuple(
        ResourceUsage(f"pipeline {pipeline.name}", reverse("pipeline", args=[pipeline.pk]))
        for pipeline in visible_pipelines
    )
    return ResourceUsages(usages, hidden=len(ids) - len(usages))


def _list_steps(yaml: str) -> Iterator[StepSpec]:
    """Return the steps of a pipeline, including rollback steps; empty if it cannot be parsed."""
    try:
        stages = parse_pipeline(yaml).stages
    except InvalidPipelineError:
        return
    for stage in stages:
        yield from (*stage.steps, *stage.rollback_steps)


@register_connector_users("pipeline", build_pipeline_links)
def find_pipelines_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the pipelines with a step that uses each connector; two queries."""
    index = ConnectorIndex(connectors)
    rows = Pipeline.objects.filter(yaml__contains="connector").values_list("pk", "scope__path", "yaml")
    return group_connector_users(
        (index.find_key(path, reference, kind), pk)
        for pk, path, yaml in rows.iterator()
        if any(connector.identifier in yaml for connector in connectors)
        for reference, kind in list_pipeline_connectors(yaml)
    )


@lru_cache(maxsize=_CACHED_PIPELINES)
def list_pipeline_connectors(yaml: str) -> tuple[ConnectorReference, ...]:
    """Return the connector references of the steps of a pipeline, each with the required kind."""
    references = {
        reference
        for step in _list_steps(yaml)
        for reference in (*list_step_connectors(step.type, step.spec), *_list_manifest_connectors(step))
    }
    return tuple(sorted(references))


def _list_manifest_connectors(step: StepSpec) -> Iterator[ConnectorReference]:
    for source in list_sources(step.type, step.spec):
        if is_remote(source):
            yield source["place"]["connector"], get_store(source["store"]).connector_kind


def build_trigger_links(ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of triggers from their keys."""
    triggers = filter_visible(principal, "core_pipeline_view", Trigger.objects.filter(pk__in=ids))
    usages = tuple(
        ResourceUsage(f"trigger {trigger.name}", reverse("trigger", args=[trigger.pk]))
        for trigger in triggers.defer("secret").order_by("name", "pk")
    )
    return ResourceUsages(usages, hidden=len(ids) - len(usages))


def find_following_triggers(pipeline: Pipeline, principal: Principal) -> ResourceUsages:
    """Return the triggers that start another pipeline when a run of this one ends."""
    rows = Trigger.objects.filter(kind=PipelineTrigger.identifier, pipeline__deleted_at=None)
    rows = rows.filter(pipeline__scope=pipeline.scope_id, **{f"spec__{PIPELINE}": pipeline.identifier})
    return build_trigger_links(list(rows.values_list("pk", flat=True)), principal)


@register_connector_users("trigger", build_trigger_links)
def find_triggers_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the triggers that poll through each connector; two queries."""
    index = ConnectorIndex(connectors)
    rows = Trigger.objects.filter(
        kind=ImagePush.identifier, spec__connector__in=index.references, pipeline__deleted_at=None
    )
    return group_connector_users(
        (index.find_key(path, reference, kind), pk)
        for pk, path, reference in rows.values_list("pk", "pipeline__scope__path", "spec__connector")
        for kind in CONNECTOR_KINDS
    )


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
