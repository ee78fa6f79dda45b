"""Services, environments and infrastructures that stages reference: lookup and checks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from catalog.manifests.locations import load_named_connectors
from catalog.models import Artifact, Environment, Infrastructure, Service
from catalog.overrides.override_sets import ServiceOverrideSet, load_override_sets
from catalog.overrides.variables import merge_values
from connectors.specs.aws import parse_aws_spec
from pipelines.definition.deferred_expressions import LOCATION_PATHS
from pipelines.definition.parser import PipelineSpec, StageSpec, StepSpec
from rbac.models import Scope
from steps.conditions import parse_condition
from steps.expressions import find_paths
from steps.kinds.outputs import (
    describe_path_problem,
    is_provisioner_path,
    list_provisioner_outputs,
    list_provisioner_types,
)
from steps.kinds.registry import get_step_kind


def get_dynamic_location(place: Infrastructure) -> dict[str, str] | None:
    """Return the region and cluster expressions of a dynamic infrastructure; None for a static one."""
    return {"region": place.region, "cluster": place.cluster} if place.is_dynamic else None


def find_provisioning_problems(stage: StageSpec, place: Infrastructure) -> Iterator[str]:
    """Return the reasons why a stage cannot resolve its dynamic target; none for a static one."""
    if not place.is_dynamic:
        return
    yield from _find_early_references(stage)
    steps = [
        step for step in stage.steps[: stage.provisioner_step_count] if step.type in list_provisioner_types()
    ]
    outputs = list_provisioner_outputs((step.type, step.spec) for step in steps)
    for field in ("region", "cluster"):
        for _, path in find_paths(getattr(place, field)):
            if is_provisioner_path(path) and (
                problem := describe_path_problem(path, outputs, has_any=bool(steps))
            ):
                yield f"infrastructure {place.identifier} maps its {field}: {problem}"


def _find_early_references(stage: StageSpec) -> Iterator[str]:
    """Return the provisioner steps that use the location they provide."""
    for step in stage.steps[: stage.provisioner_step_count]:
        condition = (step.when or {}).get("condition")
        named = [path for _, path in find_paths(step.spec)]
        named += parse_condition(condition).paths if condition else ()
        for path in dict.fromkeys(reference for reference in named if reference in LOCATION_PATHS):
            yield (
                f"step {step.identifier} uses <+{path}>, which is resolved only after the provisioner "
                "steps: enter the value in the step, for example with a pipeline variable"
            )


_SERVICE_FIELD = "service.serviceRef"
_INFRASTRUCTURE_FIELD = "environment.infrastructureDefinitions.0.identifier"
_RELATED_FIELDS = ("environment__scope", "connector__scope", "connector__secret__scope")


@dataclass(frozen=True)
class ReferenceProblem:
    """A missing resource that a stage references."""

    path: str
    message: str


@dataclass(frozen=True)
class StageTarget:
    """The service and target of a stage, looked up by identifier."""

    spec: StageSpec
    service: Service
    environment: Environment
    infrastructure: Infrastructure
    overrides: ServiceOverrideSet
    path: str = ""
    """Path of the stage's spec in the pipeline."""

    @property
    def artifact(self) -> Artifact | None:
        """Return the image of the service, if it has one."""
        return getattr(self.service, "artifact", None)

    @property
    def service_path(self) -> str:
        """Return the path of the service's identifier in the pipeline."""
        return f"{self.path}.{_SERVICE_FIELD}"

    @property
    def infrastructure_path(self) -> str:
        """Return the path of the infrastructure's identifier in the pipeline."""
        return f"{self.path}.{_INFRASTRUCTURE_FIELD}"


def find_stage_targets(
    pipeline: PipelineSpec, scope: Scope
) -> tuple[list[StageTarget], list[ReferenceProblem]]:
    """Look up the targets of all stages, from the scope upwards; five queries for any number of stages."""
    stages = _load_references(pipeline.stages, scope)
    places = [stage.place for stage in stages if stage.place]
    overrides = iter(load_override_sets(places))
    targets: list[StageTarget] = []
    problems: list[ReferenceProblem] = []
    for stage in stages:
        problems += stage.list_missing(scope)
        if stage.place:
            target = StageTarget(stage.spec, *stage.place, next(overrides), stage.path)
            targets.append(target)
            problems += _find_target_problems(target, scope)
    return targets, problems


@dataclass(frozen=True)
class _StageReferences:
    """What a stage references, as far as it exists."""

    spec: StageSpec
    path: str
    service: Service | None
    environment: Environment | None
    infrastructure: Infrastructure | None

    @property
    def place(self) -> tuple[Service, Environment, Infrastructure] | None:
        if self.service and self.environment and self.infrastructure:
            return self.service, self.environment, self.infrastructure
        return None

    def list_missing(self, scope: Scope) -> Iterator[ReferenceProblem]:
        """Yield what does not exist."""
        spec, path = self.spec, self.path
        if self.service is None:
            yield build_not_found_problem("service", spec.service, scope, f"{path}.{_SERVICE_FIELD}")
        if self.environment is None:
            at = f"{path}.environment.environmentRef"
            yield build_not_found_problem("environment", spec.environment, scope, at)
        elif self.infrastructure is None:
            text = f"environment {spec.environment} has no infrastructure {spec.infrastructure}"
            yield ReferenceProblem(f"{path}.{_INFRASTRUCTURE_FIELD}", text)


def _load_references(stages: Sequence[StageSpec], scope: Scope) -> list[_StageReferences]:
    """Load what all stages reference, each kind at once."""
    services = _find_nearest(
        Service.objects.select_related("scope", "artifact").prefetch_related("manifests"),
        scope,
        {stage.service for stage in stages},
    )
    environments = _find_nearest(
        Environment.objects.select_related("scope"), scope, {stage.environment for stage in stages}
    )
    rows = Infrastructure.objects.select_related(*_RELATED_FIELDS).filter(
        environment__in=environments.values(), identifier__in={stage.infrastructure for stage in stages}
    )
    infrastructures = {(row.environment.identifier, row.identifier): row for row in rows}
    return [
        _StageReferences(
            stage,
            f"pipeline.stages.{number}.stage.spec",
            services.get(stage.service),
            environments.get(stage.environment),
            infrastructures.get((stage.environment, stage.infrastructure)),
        )
        for number, stage in enumerate(stages)
    ]


def _find_target_problems(target: StageTarget, scope: Scope) -> Iterator[ReferenceProblem]:
    """Yield the conflicts and missing connectors of manifests, and what a dynamic target lacks."""
    path = target.service_path
    for text in target.overrides.conflicts:
        yield ReferenceProblem(path, text)
    for (store, name), connector in load_named_connectors(scope, target.overrides.list_rows()).items():
        if connector is None:
            problem = build_not_found_problem("connector", name, scope, path)
            yield ReferenceProblem(path, f"{problem.message}, used by a manifest in {store}")
    for text in find_provisioning_problems(target.spec, target.infrastructure):
        yield ReferenceProblem(target.infrastructure_path, text)


def find_delegate_conflicts(targets: list[StageTarget]) -> list[ReferenceProblem]:
    """Yield the stages with delegate selectors whose connector does not use a delegate."""
    return [
        ReferenceProblem(
            f"pipeline.stages.{number}.stage",
            f"the step {asking.identifier} has the delegate selectors {', '.join(asking.selectors)}, "
            f"but the connector {target.infrastructure.connector.identifier} connects through the "
            "manager: set the connector to connect through a delegate, or remove delegateSelectors",
        )
        for number, target in enumerate(targets)
        if (asking := _find_step_with_selectors(target.spec)) is not None
        and not parse_aws_spec(target.infrastructure.connector.spec).is_remote
    ]


def _find_step_with_selectors(stage: StageSpec) -> StepSpec | None:
    return next(
        (
            step
            for step in (*stage.steps, *stage.rollback_steps)
            if step.selectors and not get_step_kind(step.type).runs_on_delegates
        ),
        None,
    )


def find_missing_values(targets: list[StageTarget]) -> list[ReferenceProblem]:
    """Return the required variables of a service without a value on any level."""
    return [
        ReferenceProblem(
            f"pipeline.stages.{number}.stage.spec",
            f"the variable {name} of service {target.service.identifier} is required and has no value: "
            f"set it in the service or in environment {target.environment.identifier}",
        )
        for number, target in enumerate(targets)
        for name in target.service.required_variables
        if merge_values(*target.overrides.values).get(name, "") == ""
    ]


def find_service(scope: Scope, identifier: str) -> Service | None:
    """Return the service with an identifier in a pipeline's scope or above; None if missing."""
    service: Service | None = find_nearest_resource(Service, scope, identifier)
    return service


def build_step_path(stage: int, step: StepSpec) -> str:
    """Return the path of a step in its pipeline."""
    return ".".join(map(str, ("pipeline", "stages", stage, "stage", "spec", *step.path)))


def build_not_found_problem(kind: str, identifier: str, scope: Scope, path: str) -> ReferenceProblem:
    """Build the message for a missing or hidden resource."""
    return ReferenceProblem(path, f"{kind} {identifier} does not exist in {scope.path}")


def find_nearest_resource(model: Any, scope: Scope, identifier: str) -> Any:
    """Return the resource with an identifier in the scope, or in the nearest scope above."""
    return _find_nearest(model.objects.select_related("scope"), scope, [identifier]).get(identifier)


def filter_nearest(rows: QuerySet[Any], scope: Scope) -> QuerySet[Any]:
    """Return the services or environments that a pipeline can name: the nearest of each identifier."""
    near = rows.model._default_manager.filter(scope__path__in=scope.ancestor_paths())
    nearer = near.filter(identifier=OuterRef("identifier"), scope__path__gt=OuterRef("scope__path"))
    return rows.filter(~Exists(nearer), scope__path__in=scope.ancestor_paths())


def list_infrastructures_near(scope: Scope) -> QuerySet[Infrastructure]:
    """Return the infrastructures of the environments that a pipeline of a scope can name."""
    environments = filter_nearest(Environment.objects.all(), scope)
    return Infrastructure.objects.filter(environment__in=environments)


def _find_nearest(rows: QuerySet[Any], scope: Scope, identifiers: Iterable[str]) -> dict[str, Any]:
    """Return the nearest rows by identifier, in one query."""
    found = rows.filter(scope__path__in=scope.ancestor_paths(), identifier__in=identifiers)
    # Of several, the last is the deepest.
    return {row.identifier: row for row in sorted(found, key=lambda row: len(row.scope.path))}
