"""What the stages of a pipeline name, looked up: services and the places that they go to."""

from dataclasses import dataclass
from typing import Any

from catalog.effective.resolution import Overridden, overridden
from catalog.effective.variables import effective
from catalog.manifests.store_connectors import named_connectors
from catalog.models import Environment, Infrastructure, Service
from connectors.aws_accounts import read_spec
from pipelines.definition import provisioning
from pipelines.definition.parser import PipelineSpec, StageSpec, StepSpec
from rbac.models import Scope
from steps.kinds.base import step_kind

_OF_PLACE = ("environment__scope", "connector__scope", "connector__secret__scope")


@dataclass(frozen=True)
class Missing:
    """Something that a stage names and nobody has made."""

    path: str
    message: str


@dataclass(frozen=True)
class Target:
    """What one stage deploys and where, looked up by the names in the pipeline."""

    spec: StageSpec
    service: Service
    environment: Environment
    infrastructure: Infrastructure
    overridden: Overridden
    path: str = ""
    """Where in the pipeline the spec of the stage is."""


def find_targets(pipeline: PipelineSpec, scope: Scope) -> tuple[list[Target], list[Missing]]:
    """Look up what each stage names, in the scope and those above it."""
    targets: list[Target] = []
    missing: list[Missing] = []
    for number, stage in enumerate(pipeline.stages):
        path = f"pipeline.stages.{number}.stage.spec"
        service = nearest_service(scope, stage.service)
        environment = nearest(Environment, scope, stage.environment)
        infrastructure = (
            Infrastructure.objects.select_related(*_OF_PLACE)
            .filter(environment=environment, identifier=stage.infrastructure)
            .first()
        )
        if service is None:
            missing.append(no_such("service", stage.service, scope, f"{path}.service.serviceRef"))
        if environment is None:
            at = f"{path}.environment.environmentRef"
            missing.append(no_such("environment", stage.environment, scope, at))
        elif infrastructure is None:
            text = f"environment {stage.environment} has no infrastructure {stage.infrastructure}"
            missing.append(Missing(f"{path}.environment.infrastructureDefinitions.0.identifier", text))
        if service and environment and infrastructure:
            found = overridden(service, environment, infrastructure)
            targets.append(Target(stage, service, environment, infrastructure, found, path))
            missing += [Missing(f"{path}.service.serviceRef", text) for text in found.conflicts]
            missing += _without_connector(found, scope, f"{path}.service.serviceRef")
            at = f"{path}.environment.infrastructureDefinitions.0.identifier"
            missing += [Missing(at, text) for text in provisioning.stage_faults(stage, infrastructure)]
    return targets, missing


def _without_connector(found: Overridden, scope: Scope, path: str) -> list[Missing]:
    """The connectors that manifests in Git or S3 name and nobody has made."""
    return [
        Missing(path, f"{no_such('connector', name, scope, path).message}, which a manifest in {store} names")
        for (store, name), connector in named_connectors(scope, found.sources()).items()
        if connector is None
    ]


def closed_to_delegates(targets: list[Target]) -> list[Missing]:
    """The stages that ask for delegates although their connector calls from this Slipway itself."""
    return [
        Missing(
            f"pipeline.stages.{number}.stage",
            f"the step {asking.identifier} asks for delegates with {', '.join(asking.selectors)}, but the "
            f"connector {target.infrastructure.connector.identifier} makes its calls from this Slipway: "
            "let the connector go through a delegate, or remove delegateSelectors",
        )
        for number, target in enumerate(targets)
        if (asking := _asking_for_delegates(target.spec)) is not None
        and not read_spec(target.infrastructure.connector.spec).is_remote
    ]


def _asking_for_delegates(stage: StageSpec) -> StepSpec | None:
    return next(
        (
            step
            for step in (*stage.steps, *stage.rollback_steps)
            if step.selectors and not step_kind(step.type).goes_to_delegates
        ),
        None,
    )


def missing_values(targets: list[Target]) -> list[Missing]:
    """The variables that a service requires and that no level gives a value."""
    return [
        Missing(
            f"pipeline.stages.{number}.stage.spec",
            f"the variable {name} of service {target.service.identifier} is required and has no value: "
            f"give it one in the service or in environment {target.environment.identifier}",
        )
        for number, target in enumerate(targets)
        for name in target.service.required_variables
        if effective(*target.overridden.values).get(name, "") == ""
    ]


def nearest_service(scope: Scope, identifier: str) -> Service | None:
    """The service that a pipeline of a scope means by an identifier, None where there is none."""
    found: Service | None = nearest(Service, scope, identifier)
    return found


def no_such(kind: str, identifier: str, scope: Scope, path: str) -> Missing:
    """What is said of a name that means nothing, or nothing that the reader may know of."""
    return Missing(path, f"there is no {kind} {identifier} in {scope.path}")


def nearest(model: Any, scope: Scope, identifier: str) -> Any:
    """The resource with this identifier, from the scope itself or the nearest scope above."""
    for one in reversed(list(scope.ancestors_and_self())):
        found = model.objects.select_related("scope").filter(scope=one, identifier=identifier).first()
        if found is not None:
            return found
    return None
