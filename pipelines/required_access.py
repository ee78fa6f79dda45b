"""Permissions that a pipeline and its runs require on used resources (R082)."""

from collections.abc import Iterable, Iterator
from typing import Any

from catalog.artifacts.image_sources import list_source_needs
from catalog.manifests.locations import list_store_needs
from connectors.required_access import RequiredPermission, get_connector_requirements
from pipelines.definition.parser import StageSpec
from pipelines.definition.stage_targets import StageTarget
from pipelines.definition.step_manifest_sources import list_sources
from pipelines.definition.step_references import list_connector_needs, list_secret_needs
from rbac.models import Scope


def list_run_needs(targets: Iterable[StageTarget], scope: Scope) -> Iterator[RequiredPermission]:
    """Yield the permissions needed to run a pipeline of `scope`, each with its position in the pipeline."""
    for target in targets:
        place, at, infrastructure = target.path, target.service_path, target.infrastructure
        yield from _list_target_needs(target, place)
        hint = f"the connector of infrastructure {infrastructure.identifier}"
        yield from get_connector_requirements(
            infrastructure.connector, hint=hint, path=target.infrastructure_path
        )
        if (artifact := target.artifact) is not None:
            image_hint = f"the connector of the image of the service {target.service.identifier}"
            yield from list_source_needs(scope, artifact.source, hint=image_hint, path=at)
        yield from list_store_needs(
            target.overrides.list_rows(),
            scope,
            hint=f"the connector of a manifest of the service {target.service.identifier}",
            file_hint=f"a file of the service {target.service.identifier}",
            path=at,
        )
        yield from _list_step_store_needs(target.spec, scope, f"{place}.execution")
        yield from list_secret_needs(target.spec, scope, f"{place}.execution")
        yield from list_connector_needs(target.spec, scope, f"{place}.execution")


def _list_target_needs(target: StageTarget, place: str) -> Iterator[RequiredPermission]:
    yield build_resource_need("service", target.service, f"{place}.service.serviceRef")
    yield build_resource_need("environment", target.environment, f"{place}.environment.environmentRef")


def build_resource_need(
    kind: str, thing: Any, path: str = "", *, right: str = "access"
) -> RequiredPermission:
    title = f"the {kind} {thing.identifier}"
    return RequiredPermission(f"core_{kind}_{right}", thing, title, title, path)


def _list_step_store_needs(stage: StageSpec, scope: Scope, place: str) -> Iterator[RequiredPermission]:
    """Yield the permissions needed for the stores of manifests in steps."""
    for step in (*stage.steps, *stage.rollback_steps):
        hint = f"the connector of a manifest of the step {step.identifier}"
        yield from list_store_needs(list_sources(step.type, step.spec), scope, hint=hint, path=place)
