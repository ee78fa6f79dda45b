"""Checks for services and pipelines that could never be deployed.

Manifests in Git and S3, and files hidden from the author, are left to the run and its preview.
"""

from collections.abc import Iterator, Mapping, Sequence

from catalog.manifests.checks import check_deployable
from catalog.manifests.kinds import SERVICE_DEFINITION
from catalog.manifests.stores import INLINE
from catalog.models import Artifact, Service, ServiceOverride
from catalog.overrides.effective_manifests import get_file_scope, merge_visible_manifests
from catalog.overrides.override_sets import ManifestRow, build_manifest_row, load_override_set
from pipelines.definition.parser import InvalidPipelineError, StageSpec, StepSpec, parse_pipeline
from pipelines.definition.stage_targets import ReferenceProblem, StageTarget, find_stage_targets
from pipelines.definition.step_manifest_sources import list_sources
from pipelines.definition.step_manifests import is_program
from pipelines.models import Pipeline
from pipelines.queries import list_pipelines_using
from rbac.models import Scope, User
from rbac.policy import Principal, can
from steps.conditions import parse_condition
from steps.expressions import find_paths
from web.http.problems import BadInput

BLUE_GREEN_STEP = "EcsBlueGreenCreateService"
# Steps that cannot follow a deployment whose traffic ECS shifts itself.
CLASSIC_STEPS = frozenset({"EcsRollingDeploy", "EcsCanaryDeploy", BLUE_GREEN_STEP})
DEPLOY_STEPS = CLASSIC_STEPS | {"EcsNativeDeploy"}
# Steps that need a desired count, or traffic for a second version.
REPLICA_STEPS = frozenset({"EcsCanaryDeploy", "EcsNativeDeploy", BLUE_GREEN_STEP})
# First words of the expressions with the image of a run.
_IMAGE_ROOTS = ("artifact", "primary")
# Text of every pipeline with the blue/green step or strategy.
_BLUE_GREEN_MARKER = "BlueGreen"


def list_undeployable_stages(targets: Sequence[StageTarget], reader: Principal) -> list[ReferenceProblem]:
    """Return why stages of a pipeline could never deploy their services."""
    return [
        ReferenceProblem(f"{target.path}.service.serviceRef", fault)
        for target in targets
        for fault in _list_target_faults(target, reader)
    ]


def list_deploying_stages(text: str) -> list[StageSpec]:
    """Return the stages of a pipeline that deploy their service; others only run tasks of it.

    An invalid pipeline has none.
    """
    return [stage for stage in _list_stages(text) if any(step.type in DEPLOY_STEPS for step in stage.steps)]


def _list_stages(text: str) -> Sequence[StageSpec]:
    try:
        return parse_pipeline(text).stages
    except InvalidPipelineError:
        return ()


def list_image_pipelines(service: Service, pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    """Return the pipelines that deploy a service with its own image, or with any if it has none; one query.

    A run has the image of the first service with one.
    """
    stages_by_pipeline = {pipeline: _list_stages(pipeline.yaml) for pipeline in pipelines}
    services = _load_services(stages_by_pipeline)
    found = []
    for pipeline, stages in stages_by_pipeline.items():
        paths = set(pipeline.scope.ancestor_paths())
        nearest = {row.identifier: row for row in services if row.scope.path in paths}
        if _deploys_image(service, [(stage, nearest.get(stage.service)) for stage in stages]):
            found.append(pipeline)
    return found


def _deploys_image(service: Service, stages: Sequence[tuple[StageSpec, Service | None]]) -> bool:
    if not any(owner == service and _may_use_image(stage) for stage, owner in stages):
        return False
    images = (getattr(owner, "artifact", None) for _, owner in stages)
    own, image = getattr(service, "artifact", None), next(filter(None, images), None)
    return own is None or image is None or _is_same_image(own, image)


def _load_services(stages_by_pipeline: Mapping[Pipeline, Sequence[StageSpec]]) -> list[Service]:
    """Return the services of pipelines, those of lower scopes last; one query."""
    names = {stage.service for stages in stages_by_pipeline.values() for stage in stages}
    paths = {path for pipeline in stages_by_pipeline for path in pipeline.scope.ancestor_paths()}
    rows = Service.objects.filter(identifier__in=names, scope__path__in=paths)
    return sorted(rows.select_related("scope", "artifact"), key=lambda row: len(row.scope.path))


def find_image_conflicts(targets: Sequence[StageTarget]) -> list[ReferenceProblem]:
    """Return the stages that deploy a service with another image than the run: that of the first service.

    Stages that only scale a service, run a script or wait for an approval have no conflict.
    """
    images = [(target, target.artifact) for target in targets if target.artifact]
    conflicts = []
    for target, artifact in images[1:]:
        first, first_artifact = images[0][0].service, images[0][1]
        if not _is_same_image(artifact, first_artifact) and _may_use_image(target.spec):
            text = (
                f"service {target.service.identifier} has another image or image source than service "
                f"{first.identifier}, and a run deploys one image: give each service a pipeline of its own, "
                "and start one after the other with a trigger"
            )
            conflicts.append(ReferenceProblem(target.service_path, text))
    return conflicts


def _is_same_image(image: Artifact, other: Artifact) -> bool:
    return (image.image, image.source) == (other.image, other.source)


def _may_use_image(stage: StageSpec) -> bool:
    """Return whether a stage uses the image of the run; files are not read, so a step with one may."""
    steps = (*stage.steps, *stage.rollback_steps)
    paths = [path for step in steps for _, path in find_paths(step.spec)]
    groups = (*stage.groups, *stage.rollback_groups)
    for when in (stage.when, *(group.when for group in groups), *(step.when for step in steps)):
        if when and when["condition"]:
            paths += parse_condition(when["condition"]).paths
    return any(path.partition(".")[0] in _IMAGE_ROOTS for path in paths) or any(
        step.type in DEPLOY_STEPS or _has_file(step) for step in steps
    )


def _has_file(step: StepSpec) -> bool:
    sources = list_sources(step.type, step.spec)
    return any(source["store"] != INLINE and not is_program(source) for source in sources)


def require_deployable_service(service: Service, actor: User) -> None:
    """Raise `BadInput` if a service, or an override of it, could never be deployed.

    Call it inside the transaction of the change. An override of the service definition is checked in place of
    the service's own.
    """
    faults = [*_list_service_faults(service, actor), *_list_blue_green_faults(service, actor)]
    if faults:
        errors = [{"path": "manifests", "message": fault} for fault in dict.fromkeys(faults)]
        raise BadInput("This service cannot be deployed.", errors=errors)


def _list_service_faults(service: Service, actor: User) -> Iterator[str]:
    places = [
        load_override_set(service, override.environment, override.infrastructure)
        for override in ServiceOverride.objects.filter(service=service).select_related(
            "environment__scope", "infrastructure"
        )
        if any(row["kind"] == SERVICE_DEFINITION for row in override.manifests)
    ]
    for place in places:
        yield from _list_faults(place.list_rows([SERVICE_DEFINITION]), get_file_scope(place), actor)
    if not places:
        own = service.manifests.filter(kind=SERVICE_DEFINITION).order_by("pk")
        yield from _list_faults([build_manifest_row(manifest) for manifest in own], service.scope, actor)


def _list_blue_green_faults(service: Service, actor: User) -> Iterator[str]:
    for pipeline in list_pipelines_using(service, containing=_BLUE_GREEN_MARKER):
        is_seen = can(actor, "core_pipeline_view", pipeline)
        name = f"the pipeline {pipeline.name}" if is_seen else "a pipeline"
        for target in _list_targets(pipeline):
            if target.service == service and _is_blue_green(target.spec):
                for fault in _list_target_faults(target, actor):
                    yield f"{fault} ({name} deploys it with blue/green)"


def _list_targets(pipeline: Pipeline) -> list[StageTarget]:
    return find_stage_targets(parse_pipeline(pipeline.yaml), pipeline.scope)[0]


def _list_target_faults(target: StageTarget, reader: Principal) -> Iterator[str]:
    rows = target.overrides.list_rows([SERVICE_DEFINITION])
    types = {step.type for step in target.spec.steps}
    return _list_faults(
        rows,
        get_file_scope(target.overrides),
        reader,
        is_blue_green=_is_blue_green(target.spec),
        is_classic=bool(types & CLASSIC_STEPS),
        is_only_rolling=not types & REPLICA_STEPS,
    )


def _list_faults(
    rows: Sequence[ManifestRow],
    scope: Scope,
    reader: Principal,
    *,
    is_blue_green: bool = False,
    is_classic: bool = False,
    is_only_rolling: bool = True,
) -> Iterator[str]:
    for manifest in merge_visible_manifests(SERVICE_DEFINITION, rows, scope, reader):
        problems = check_deployable(
            manifest.document,
            is_blue_green=is_blue_green,
            is_classic=is_classic,
            is_only_rolling=is_only_rolling,
        )
        yield from map(str, problems)


def _is_blue_green(stage: StageSpec) -> bool:
    return any(step.type == BLUE_GREEN_STEP for step in stage.steps)
