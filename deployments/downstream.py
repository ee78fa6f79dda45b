"""What a pipeline and a run of it put to use, for the downstream rule (R082)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import QuerySet

from connectors.downstream import Need, needs_of_connector, needs_of_files
from connectors.models import Connector
from deployments.artifact_sources import needs_of_source
from deployments.manifests.places import is_wanting
from deployments.models import Artifact, Environment, Execution, StageExecution
from deployments.pipelines import PipelineSpec, StageSpec
from deployments.step_connectors import needs_of_frozen_connectors, needs_of_step_connectors
from deployments.step_manifests import frozen_sources
from deployments.step_secrets import needs_of_frozen_secrets, needs_of_secrets
from deployments.step_sources import files_of, sources_of
from deployments.store_connectors import needs_of_stores
from deployments.targets import Target, nearest_service
from rbac.models import Scope
from steps.expressions import has_expression

_FILE_STORE = "FileStore"


def needs_of_run(spec: PipelineSpec, targets: Iterable[Target], scope: Scope) -> Iterator[Need]:
    """Yield what it takes to run a pipeline of `scope`, each with the place in the pipeline that names it."""
    for target in targets:
        place = f"pipeline.stages.{spec.stages.index(target.spec)}.stage.spec"
        yield from _of_names(target, place)
        at = f"{place}.environment.infrastructureDefinitions.0.identifier"
        infrastructure = target.infrastructure
        hint = f"the connector of infrastructure {infrastructure.identifier}"
        yield from needs_of_connector(infrastructure.connector, hint=hint, path=at)
        at = f"{place}.service.serviceRef"
        hint = f"a file of the service {target.service.identifier}"
        sources = target.overridden.sources()
        yield from needs_of_files(stored_files(sources), scope, hint=hint, path=at)
        hint = f"the connector of a manifest of the service {target.service.identifier}"
        artifact = Artifact.objects.filter(service=target.service).first()
        if artifact is not None:
            said = f"the connector of the image of the service {target.service.identifier}"
            yield from needs_of_source(scope, artifact.source, hint=said, path=at)
        yield from needs_of_stores(sources, scope, hint=hint, path=at)
        yield from needs_of_files(_step_files(target.spec), scope, path=at)
        yield from _of_step_places(target.spec, scope, f"{place}.execution")
        yield from needs_of_secrets(target.spec, scope, f"{place}.execution")
        yield from needs_of_step_connectors(target.spec, scope, f"{place}.execution")


def needs_of_execution(execution: Execution, *, rolling_back: bool = False) -> Iterator[Need]:
    """Yield what it takes to let an execution go on or back: what its stages use as they are frozen."""
    for stage in execution.stages.select_related("connector__scope", "connector__secret__scope"):
        yield from needs_of_stage(stage)
        if rolling_back:
            yield from (_named("environment", one, right="rollback") for one in _environments(stage))
        else:
            yield from _of_frozen_places(stage)


def needs_of_stage(stage: StageExecution) -> Iterator[Need]:
    """Yield what it takes to act for a stage in AWS; what was deleted since is left out."""
    yield from needs_of_connector(stage.connector, hint=f"the connector of stage {stage.identifier}")
    service = nearest_service(stage.execution.scope, stage.values.get("service", {}).get("identifier", ""))
    if service is not None:
        yield _named("service", service)
    yield from (_named("environment", one) for one in _environments(stage))
    yield from needs_of_frozen_secrets(stage)
    yield from needs_of_frozen_connectors(stage)


def stored_files(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the references to the file store among manifests, without those that only a run can tell."""
    refs = [str(ref) for one in manifests if one["store"] == _FILE_STORE for ref in one["paths"]]
    return [ref for ref in refs if not has_expression(ref)]


def _of_names(target: Target, place: str) -> Iterator[Need]:
    yield _named("service", target.service, f"{place}.service.serviceRef")
    yield _named("environment", target.environment, f"{place}.environment.environmentRef")


def _of_frozen_places(stage: StageExecution) -> Iterator[Need]:
    """Where manifests of a stage, and of its steps, have still to be fetched from."""
    own = (row for step in stage.steps.all() for row in frozen_sources(step.type, step.spec))
    wanted = {row.get("connector_id") for row in (*stage.sources, *own) if is_wanting(row)}
    if not wanted:
        return
    for one in Connector.objects.filter(pk__in=wanted).select_related("scope", "secret__scope"):
        yield from needs_of_connector(one, hint=f"the connector of a manifest of stage {stage.identifier}")


def _named(kind: str, thing: Any, path: str = "", *, right: str = "access") -> Need:
    title = f"the {kind} {thing.identifier}"
    return Need(f"core_{kind}_{right}", thing, title, title, path)


def _environments(stage: StageExecution) -> QuerySet[Environment]:
    path, _, identifier = stage.environment.rpartition("/")
    return Environment.objects.filter(scope__path=path, identifier=identifier).select_related("scope")


def _of_step_places(stage: StageSpec, scope: Scope, place: str) -> Iterator[Need]:
    """Where the manifests that steps bring themselves are fetched from."""
    for step in (*stage.steps, *stage.rollback_steps):
        hint = f"the connector of a manifest of the step {step.identifier}"
        yield from needs_of_stores(sources_of(step.type, step.spec), scope, hint=hint, path=place)


def _step_files(stage: StageSpec) -> list[str]:
    refs = [ref for step in (*stage.steps, *stage.rollback_steps) for ref in files_of(step.type, step.spec)]
    return [ref for ref in refs if not has_expression(ref)]
