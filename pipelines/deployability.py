"""What can never be deployed as it is written: refused when it is saved, not only by a run.

Manifests in Git and S3, and files that the writer may not see, are left to the run and its preview.
"""

from collections.abc import Iterator, Sequence

from catalog.effective.manifests import merged_in_sight, scope_of
from catalog.effective.resolution import Row, overridden, row_of
from catalog.manifests.check import check_deployable
from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.models import Service, ServiceOverride
from pipelines.definition.parser import StageSpec, read_pipeline
from pipelines.definition.targets import Missing, Target, find_targets
from pipelines.models import Pipeline
from pipelines.references import pipelines_with
from rbac.models import Scope, User
from rbac.policy import Principal, can
from web.problems import BadInput

BLUE_GREEN_STEP = "EcsBlueGreenCreateService"
# What every pipeline contains that names the step, or the strategy that fills it in.
_BLUE_GREEN = "BlueGreen"


def undeployable_stages(targets: Sequence[Target], reader: Principal) -> list[Missing]:
    """Return why stages of a pipeline could never deploy their services."""
    return [
        Missing(f"{target.path}.service.serviceRef", fault)
        for target in targets
        for fault in _faults_of_target(target, reader)
    ]


def refuse_undeployable(service: Service, actor: User) -> None:
    """Raise `BadInput` where a service, or what overrides it, could never be deployed.

    Call it inside the transaction that has written it. Where an override says something of the service
    definition, that counts and not the service's own.
    """
    found = [*_faults_of_service(service, actor), *_faults_by_blue_green(service, actor)]
    if found:
        errors = [{"path": "manifests", "message": one} for one in dict.fromkeys(found)]
        raise BadInput("No run could ever deploy this.", errors=errors)


def _faults_of_service(service: Service, actor: User) -> Iterator[str]:
    places = [
        overridden(service, one.environment, one.infrastructure)
        for one in ServiceOverride.objects.filter(service=service).select_related(
            "environment__scope", "infrastructure"
        )
        if any(row["kind"] == SERVICE_DEFINITION for row in one.manifests)
    ]
    for place in places:
        yield from _faults(place.sources([SERVICE_DEFINITION]), scope_of(place), actor)
    if not places:
        own = service.manifests.filter(kind=SERVICE_DEFINITION).order_by("pk")
        yield from _faults([row_of(one) for one in own], service.scope, actor)


def _faults_by_blue_green(service: Service, actor: User) -> Iterator[str]:
    for pipeline in pipelines_with(service, containing=_BLUE_GREEN):
        is_seen = can(actor, "core_pipeline_view", pipeline)
        name = f"the pipeline {pipeline.name}" if is_seen else "a pipeline"
        for target in _targets_of(pipeline):
            if target.service == service and _is_blue_green(target.spec):
                for fault in _faults_of_target(target, actor):
                    yield f"{fault} ({name} deploys it by blue/green)"


def _targets_of(pipeline: Pipeline) -> list[Target]:
    return find_targets(read_pipeline(pipeline.yaml), pipeline.scope)[0]


def _faults_of_target(target: Target, reader: Principal) -> Iterator[str]:
    rows = target.overridden.sources([SERVICE_DEFINITION])
    return _faults(rows, scope_of(target.overridden), reader, is_blue_green=_is_blue_green(target.spec))


def _faults(
    rows: Sequence[Row], scope: Scope, reader: Principal, *, is_blue_green: bool = False
) -> Iterator[str]:
    for one in merged_in_sight(SERVICE_DEFINITION, rows, scope, reader):
        yield from map(str, check_deployable(one.document, is_blue_green=is_blue_green))


def _is_blue_green(stage: StageSpec) -> bool:
    return any(step.type == BLUE_GREEN_STEP for step in stage.steps)
