"""Services, environments and infrastructures that stages reference: lookup and checks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.manifests.locations import load_named_connectors
from catalog.models import Environment, Infrastructure, Service
from catalog.overrides.override_sets import ServiceOverrideSet, load_override_set
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


def find_stage_targets(
    pipeline: PipelineSpec, scope: Scope
) -> tuple[list[StageTarget], list[ReferenceProblem]]:
    """Look up the targets of all stages, from the scope upwards."""
    targets: list[StageTarget] = []
    missing: list[ReferenceProblem] = []
    for number, stage in enumerate(pipeline.stages):
        path = f"pipeline.stages.{number}.stage.spec"
        service = find_service(scope, stage.service)
        environment = find_nearest_resource(Environment, scope, stage.environment)
        infrastructure = (
            Infrastructure.objects.select_related(*_RELATED_FIELDS)
            .filter(environment=environment, identifier=stage.infrastructure)
            .first()
        )
        if service is None:
            missing.append(
                build_not_found_problem("service", stage.service, scope, f"{path}.service.serviceRef")
            )
        if environment is None:
            at = f"{path}.environment.environmentRef"
            missing.append(build_not_found_problem("environment", stage.environment, scope, at))
        elif infrastructure is None:
            text = f"environment {stage.environment} has no infrastructure {stage.infrastructure}"
            missing.append(
                ReferenceProblem(f"{path}.environment.infrastructureDefinitions.0.identifier", text)
            )
        if service and environment and infrastructure:
            overrides = load_override_set(service, environment, infrastructure)
            targets.append(StageTarget(stage, service, environment, infrastructure, overrides, path))
            missing += [ReferenceProblem(f"{path}.service.serviceRef", text) for text in overrides.conflicts]
            missing += _find_missing_connectors(overrides, scope, f"{path}.service.serviceRef")
            at = f"{path}.environment.infrastructureDefinitions.0.identifier"
            missing += [
                ReferenceProblem(at, text) for text in find_provisioning_problems(stage, infrastructure)
            ]
    return targets, missing


def _find_missing_connectors(
    overrides: ServiceOverrideSet, scope: Scope, path: str
) -> list[ReferenceProblem]:
    """Yield the missing connectors of manifests in Git or S3."""
    return [
        ReferenceProblem(
            path,
            f"{build_not_found_problem('connector', name, scope, path).message}, used by a manifest in "
            f"{store}",
        )
        for (store, name), connector in load_named_connectors(scope, overrides.list_rows()).items()
        if connector is None
    ]


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


def build_not_found_problem(kind: str, identifier: str, scope: Scope, path: str) -> ReferenceProblem:
    """Build the message for a missing or hidden resource."""
    return ReferenceProblem(path, f"{kind} {identifier} does not exist in {scope.path}")


def find_nearest_resource(model: Any, scope: Scope, identifier: str) -> Any:
    """Return the resource with an identifier in the scope, or in the nearest scope above."""
    for ancestor in reversed(list(scope.ancestors_and_self())):
        resource = model.objects.select_related("scope").filter(scope=ancestor, identifier=identifier).first()
        if resource is not None:
            return resource
    return None
