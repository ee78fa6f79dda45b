"""The canary deployment: one task of the new version beside the service, and its end (R218-R223)."""

from dataclasses import dataclass, field

from steps.actions.canary import CreateCanary, DeleteCanary, PlanCanary
from steps.actions.fail_fast import FailFast
from steps.actions.manifests import FetchManifests
from steps.actions.service import RememberService
from steps.actions.steady_state import WaitForSteadyState
from steps.actions.task_definition import RegisterTaskDefinition
from steps.kinds.base import Plan, step, unit


@dataclass(frozen=True)
class EcsCanaryDeploySpec:
    """What a pipeline may say of a canary: when it counts as failed. It is always one task (R220)."""

    failFast: FailFast = field(default_factory=FailFast)


@dataclass(frozen=True)
class EcsCanaryDeleteSpec:
    """The deletion of a canary has nothing to choose."""


@step("EcsCanaryDeploy", title="ECS Canary Deploy", spec=EcsCanaryDeploySpec, undone_by="EcsCanaryDelete")
def ecs_canary_deploy(spec: EcsCanaryDeploySpec) -> Plan:
    """Run one task of the new version in an ECS service of its own, beside the one that is deployed."""
    yield unit("Fetch manifests", FetchManifests())
    yield unit("Prepare rollback data", PlanCanary(), RememberService(definition="canary definition"))
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
    undoes=("EcsCanaryDeploy",),
    goes_forward=True,
)
def ecs_canary_delete(spec: EcsCanaryDeleteSpec) -> Plan:
    """Delete the canary. Under rollbackSteps: the place where a canary deployment is undone."""
    yield unit("Deploy", DeleteCanary())
