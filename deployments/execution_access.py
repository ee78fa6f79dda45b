"""Resources that an execution uses, and the permissions that they require (R082)."""

from collections.abc import Iterator

from django.db.models import QuerySet

from catalog.manifests.locations import is_unfetched
from catalog.models import Environment
from connectors.models import Connector
from connectors.required_access import RequiredPermission, get_connector_requirements
from deployments.models import Execution, StageExecution
from pipelines.definition.stage_targets import find_service
from pipelines.definition.step_manifests import list_frozen_sources
from pipelines.definition.step_references import (
    list_connector_reference_needs,
    list_secret_reference_needs,
    list_step_connectors,
    list_step_secrets,
)
from pipelines.required_access import build_resource_need


def needs_of_frozen_connectors(stage: StageExecution) -> Iterator[RequiredPermission]:
    """Yield the permissions for the connectors of a stage."""
    steps = stage.steps.all()
    named = (connector for step in steps for connector in list_step_connectors(step.type, step.spec))
    yield from list_connector_reference_needs(named, stage.execution.scope, "")


def needs_of_frozen_secrets(stage: StageExecution) -> Iterator[RequiredPermission]:
    """Yield the permissions for the secrets of a stage."""
    steps = stage.steps.all()
    refs = (ref for step in steps for ref in list_step_secrets(step.type, step.spec))
    yield from list_secret_reference_needs(refs, stage.execution.scope, "")


def needs_of_execution(execution: Execution, *, rolling_back: bool = False) -> Iterator[RequiredPermission]:
    """Yield the permissions to continue an execution or to roll it back, for its stored stages."""
    for stage in execution.stages.select_related("connector__scope", "connector__secret__scope"):
        yield from needs_of_stage(stage)
        if rolling_back:
            yield from (
                build_resource_need("environment", environment, right="rollback")
                for environment in _environments(stage)
            )
        else:
            yield from _list_source_needs(stage)


def needs_of_stage(stage: StageExecution) -> Iterator[RequiredPermission]:
    """Yield the permissions to change AWS for a stage; deleted resources are left out."""
    yield from get_connector_requirements(stage.connector, hint=f"the connector of stage {stage.identifier}")
    service = find_service(stage.execution.scope, stage.values.get("service", {}).get("identifier", ""))
    if service is not None:
        yield build_resource_need("service", service)
    yield from (build_resource_need("environment", environment) for environment in _environments(stage))
    yield from needs_of_frozen_secrets(stage)
    yield from needs_of_frozen_connectors(stage)


def _list_source_needs(stage: StageExecution) -> Iterator[RequiredPermission]:
    """Yield the connectors from which a stage's manifests are still to be fetched."""
    own = (row for step in stage.steps.all() for row in list_frozen_sources(step.type, step.spec))
    connector_ids = {row.get("connector_id") for row in (*stage.sources, *own) if is_unfetched(row)}
    if not connector_ids:
        return
    for connector in Connector.objects.filter(pk__in=connector_ids).select_related("scope", "secret__scope"):
        yield from get_connector_requirements(
            connector, hint=f"the connector of a manifest of stage {stage.identifier}"
        )


def _environments(stage: StageExecution) -> QuerySet[Environment]:
    path, _, identifier = stage.environment.rpartition("/")
    return Environment.objects.filter(scope__path=path, identifier=identifier).select_related("scope")
