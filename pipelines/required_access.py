"""What a pipeline and a run of it put to use, for the downstream rule (R082)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from catalog.artifacts.sources import needs_of_source
from catalog.manifests.store_connectors import needs_of_stores
from catalog.models import Artifact
from connectors.downstream import Need, needs_of_connector, needs_of_files
from pipelines.definition.parser import PipelineSpec, StageSpec
from pipelines.definition.step_connectors import needs_of_step_connectors
from pipelines.definition.step_secrets import needs_of_secrets
from pipelines.definition.step_sources import files_of, sources_of
from pipelines.definition.targets import Target
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


def stored_files(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the references to the file store among manifests, without those that only a run can tell."""
    refs = [str(ref) for one in manifests if one["store"] == _FILE_STORE for ref in one["paths"]]
    return [ref for ref in refs if not has_expression(ref)]


def _of_names(target: Target, place: str) -> Iterator[Need]:
    yield named_need("service", target.service, f"{place}.service.serviceRef")
    yield named_need("environment", target.environment, f"{place}.environment.environmentRef")


def named_need(kind: str, thing: Any, path: str = "", *, right: str = "access") -> Need:
    title = f"the {kind} {thing.identifier}"
    return Need(f"core_{kind}_{right}", thing, title, title, path)


def _of_step_places(stage: StageSpec, scope: Scope, place: str) -> Iterator[Need]:
    """Where the manifests that steps bring themselves are fetched from."""
    for step in (*stage.steps, *stage.rollback_steps):
        hint = f"the connector of a manifest of the step {step.identifier}"
        yield from needs_of_stores(sources_of(step.type, step.spec), scope, hint=hint, path=place)


def _step_files(stage: StageSpec) -> list[str]:
    refs = [ref for step in (*stage.steps, *stage.rollback_steps) for ref in files_of(step.type, step.spec)]
    return [ref for ref in refs if not has_expression(ref)]
