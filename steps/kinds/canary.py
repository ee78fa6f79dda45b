"""Canary steps: deploy one task of the new version, and delete it (R218-R223)."""

from dataclasses import dataclass, field

from steps.actions.canary import CreateCanary, DeleteCanary, PlanCanary
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.ecs_service.steady_state import WaitForSteadyState
from steps.actions.ecs_service.updates import SaveCurrentService
from steps.actions.manifests import FetchManifests
from steps.actions.task_definitions import RegisterTaskDefinition
from steps.kinds.outputs import REVISION_OUTPUTS, SERVICE_OUTPUTS
from steps.kinds.registry import Plan, step, unit


@dataclass(frozen=True)
class EcsCanaryDeploySpec:
    """Settings of a canary: conditions that fail it early. It always has one task (R220)."""

    failFast: FailFast = field(default_factory=FailFast)


@dataclass(frozen=True)
class EcsCanaryDeleteSpec:
    """Settings of the deletion of a canary: none."""


@step(
    "EcsCanaryDeploy",
    title="ECS Canary Deploy",
    spec=EcsCanaryDeploySpec,
    undone_by="EcsCanaryDelete",
    outputs={**REVISION_OUTPUTS, **SERVICE_OUTPUTS},
    needs_cluster=True,
)
def ecs_canary_deploy(spec: EcsCanaryDeploySpec) -> Plan:
    """Run one task of the new version in its own ECS service, next to the live one."""
    yield unit("Fetch manifests", FetchManifests())
    yield unit("Prepare rollback data", PlanCanary(), SaveCurrentService(definition="canary definition"))
    yield unit(
        "Deploy",
        RegisterTaskDefinition(),
        CreateCanary(definition="canary definition"),
        WaitForSteadyState(fail_fast=spec.failFast),
    )


@step(
    "EcsCanaryDelete",
    title="ECS Canary Delete",
    spec=EcsCanaryDeleteSpec,
    outputs={"serviceName": "The name of the canary."},
    needs_cluster=True,
    undoes=("EcsCanaryDeploy",),
    goes_forward=True,
)
def ecs_canary_delete(spec: EcsCanaryDeleteSpec) -> Plan:
    """Delete the canary. Under rollbackSteps: the place where a canary deployment is undone."""
    yield unit("Deploy", DeleteCanary())
