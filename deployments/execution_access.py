"""What an execution puts to use, for the downstream rule (R082)."""

from collections.abc import Iterator

from django.db.models import QuerySet

from catalog.manifests.places import is_wanting
from catalog.models import Environment
from connectors.downstream import Need, needs_of_connector
from connectors.models import Connector
from deployments.models import Execution, StageExecution
from pipelines.definition.step_connectors import connectors_of_step, needs_of_connector_references
from pipelines.definition.step_manifests import frozen_sources
from pipelines.definition.step_secrets import needs_of_secret_references, secrets_of_step
from pipelines.definition.targets import nearest_service
from pipelines.required_access import named_need


def needs_of_frozen_connectors(stage: StageExecution) -> Iterator[Need]:
    """Yield the same for a stage of an execution."""
    steps = stage.steps.all()
    named = (one for step in steps for one in connectors_of_step(step.type, step.spec))
    yield from needs_of_connector_references(named, stage.execution.scope, "")


def needs_of_frozen_secrets(stage: StageExecution) -> Iterator[Need]:
    """Yield the same for a stage of an execution."""
    steps = stage.steps.all()
    refs = (ref for step in steps for ref in secrets_of_step(step.type, step.spec))
    yield from needs_of_secret_references(refs, stage.execution.scope, "")


def needs_of_execution(execution: Execution, *, rolling_back: bool = False) -> Iterator[Need]:
    """Yield what it takes to let an execution go on or back: what its stages use as they are frozen."""
    for stage in execution.stages.select_related("connector__scope", "connector__secret__scope"):
        yield from needs_of_stage(stage)
        if rolling_back:
            yield from (named_need("environment", one, right="rollback") for one in _environments(stage))
        else:
            yield from _of_frozen_places(stage)


def needs_of_stage(stage: StageExecution) -> Iterator[Need]:
    """Yield what it takes to act for a stage in AWS; what was deleted since is left out."""
    yield from needs_of_connector(stage.connector, hint=f"the connector of stage {stage.identifier}")
    service = nearest_service(stage.execution.scope, stage.values.get("service", {}).get("identifier", ""))
    if service is not None:
        yield named_need("service", service)
    yield from (named_need("environment", one) for one in _environments(stage))
    yield from needs_of_frozen_secrets(stage)
    yield from needs_of_frozen_connectors(stage)


def _of_frozen_places(stage: StageExecution) -> Iterator[Need]:
    """Where manifests of a stage, and of its steps, have still to be fetched from."""
    own = (row for step in stage.steps.all() for row in frozen_sources(step.type, step.spec))
    wanted = {row.get("connector_id") for row in (*stage.sources, *own) if is_wanting(row)}
    if not wanted:
        return
    for one in Connector.objects.filter(pk__in=wanted).select_related("scope", "secret__scope"):
        yield from needs_of_connector(one, hint=f"the connector of a manifest of stage {stage.identifier}")


def _environments(stage: StageExecution) -> QuerySet[Environment]:
    path, _, identifier = stage.environment.rpartition("/")
    return Environment.objects.filter(scope__path=path, identifier=identifier).select_related("scope")
