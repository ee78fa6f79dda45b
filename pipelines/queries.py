"""Queries of pipelines: visible ones, and those that use a service, environment or infrastructure."""

from collections.abc import Callable

from django.db.models import QuerySet

from catalog.models import Environment, Infrastructure, Service
from catalog.usages import PipelineUsage
from pipelines.definition.parser import InvalidPipelineError, StageSpec, parse_pipeline
from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.policy import Principal, build_below_filter, filter_visible


def list_visible_pipelines(principal: User, scope: Scope | None = None) -> QuerySet[Pipeline]:
    """Return the visible pipelines, in one scope or everywhere."""
    pipelines = filter_visible(principal, "core_pipeline_view", Pipeline.objects.select_related("scope"))
    return pipelines if scope is None else pipelines.filter(build_below_filter(scope))


# Limit per page: parsing a pipeline takes milliseconds.
MOST_SCANNED_PIPELINES = 500


def find_pipelines_using(
    thing: Service | Environment | Infrastructure, principal: Principal
) -> PipelineUsage:
    """Return the pipelines with a stage that uses this resource."""
    pipelines = list_pipelines_using(thing)
    visible_ids = set(_list_visible_ids(pipelines, principal))
    visible_pipelines = tuple(pipeline for pipeline in pipelines if pipeline.pk in visible_ids)
    return PipelineUsage(visible_pipelines, len(pipelines) - len(visible_pipelines))


def list_pipelines_using(
    thing: Service | Environment | Infrastructure, *, containing: str = ""
) -> list[Pipeline]:
    """Return the pipelines with a stage that uses this resource and with `containing` in their YAML."""
    owner, names = _build_stage_filter(thing)
    hidden_by = _list_shadowing_scopes(owner)
    rows = Pipeline.objects.filter(yaml__contains=owner.identifier).select_related("scope")
    rows = rows.filter(yaml__contains=containing)
    pipelines = rows.filter(scope=owner.scope) | rows.filter(scope__path__startswith=f"{owner.scope.path}/")
    return [
        pipeline
        for pipeline in pipelines.order_by("scope__path", "identifier")[:MOST_SCANNED_PIPELINES]
        if not hidden_by & set(pipeline.scope.ancestor_paths()) and _has_matching_stage(pipeline, names)
    ]


def _build_stage_filter(
    thing: Service | Environment | Infrastructure,
) -> tuple[Service | Environment, Callable[[StageSpec], bool]]:
    if isinstance(thing, Service):
        return thing, lambda stage: stage.service == thing.identifier
    if isinstance(thing, Environment):
        return thing, lambda stage: stage.environment == thing.identifier
    environment = thing.environment
    return (
        environment,
        lambda stage: (stage.environment, stage.infrastructure) == (environment.identifier, thing.identifier),
    )


def _list_shadowing_scopes(owner: Service | Environment) -> set[str]:
    """Return the scopes below that shadow the resource with one of the same name."""
    below = type(owner)._default_manager.filter(identifier=owner.identifier)
    paths = below.filter(scope__path__startswith=f"{owner.scope.path}/").values_list("scope__path", flat=True)
    return set(paths)


def _has_matching_stage(pipeline: Pipeline, is_match: Callable[[StageSpec], bool]) -> bool:
    try:
        return any(is_match(stage) for stage in parse_pipeline(pipeline.yaml).stages)
    except InvalidPipelineError:
        return False


def _list_visible_ids(pipelines: list[Pipeline], principal: Principal) -> list[int]:
    rows = Pipeline.objects.filter(pk__in=[pipeline.pk for pipeline in pipelines])
    return list(filter_visible(principal, "core_pipeline_view", rows).values_list("pk", flat=True))
