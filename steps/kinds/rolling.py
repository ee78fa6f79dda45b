"""Rolling deployment step and its rollback step (R190-R217)."""

from dataclasses import dataclass, field

from steps.actions.auto_scaling import (
    AttachAutoScaling,
    DetachAutoScaling,
    ResumeAutoScaling,
    SuspendAutoScaling,
)
from steps.actions.blue_green.scale_down import REPLACED_SERVICE, ScaleDownReplacedPair
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.ecs_service.steady_state import WaitForSteadyState
from steps.actions.ecs_service.tags import TagService
from steps.actions.ecs_service.updates import CreateOrUpdateService, SaveCurrentService
from steps.actions.manifests import FetchManifests
from steps.actions.task_definitions import RegisterTaskDefinition
from steps.kinds.outputs import REVISION_OUTPUTS, SCALING_OUTPUTS, SERVICE_OUTPUTS
from steps.kinds.registry import Plan, step, unit


@dataclass(frozen=True)
class EcsRollingDeploySpec:
    """Settings of a rolling deployment (R208, R209)."""

    forceNewDeployment: bool | None = None
    """Replace the tasks even if nothing differs; by default only if the task definition is an ARN."""
    sameAsAlreadyRunningInstances: bool = False
    """Deploy as many tasks as run now, instead of the desired count of the service definition."""
    failFast: FailFast = field(default_factory=FailFast)


@dataclass(frozen=True)
class EcsRollingRollbackSpec:
    """Settings of a rolling rollback: none."""


_OUTPUTS = {
    **REVISION_OUTPUTS,
    **SERVICE_OUTPUTS,
    **SCALING_OUTPUTS,
    "takenOverServiceName": "The blue/green ECS service that served before, where there was one.",
    "autoScalingOfTakenOverServiceName": "What became of the auto scaling of that ECS service.",
}


@step(
    "EcsRollingDeploy",
    title="ECS Rolling Deploy",
    spec=EcsRollingDeploySpec,
    outputs=_OUTPUTS,
    needs_cluster=True,
    undone_by="EcsRollingRollback",
    timeout_minutes=30,
)
def ecs_rolling_deploy(spec: EcsRollingDeploySpec) -> Plan:
    """Replace the ECS service's tasks with the new version, as fast as its percentages allow."""
    yield unit("Fetch manifests", FetchManifests(allows_daemon=True))
    yield unit("Prepare rollback data", SaveCurrentService())
    yield unit(
        "Deploy",
        RegisterTaskDefinition(compares=True, reuses=True),
        SuspendAutoScaling(),
        CreateOrUpdateService(force=spec.forceNewDeployment, keep_count=spec.sameAsAlreadyRunningInstances),
        TagService(),
        WaitForSteadyState(fail_fast=spec.failFast),
        DetachAutoScaling(service_output=REPLACED_SERVICE),
        ScaleDownReplacedPair(),
        AttachAutoScaling(),
        ResumeAutoScaling(),
    )


@step(
    "EcsRollingRollback",
    title="ECS Rolling Rollback",
    spec=EcsRollingRollbackSpec,
    needs_cluster=True,
    undoes=("EcsRollingDeploy",),
    timeout_minutes=30,
)
def ecs_rolling_rollback(spec: EcsRollingRollbackSpec) -> Plan:
    """Undo the rolling deployments of the stage, newest first; it has no actions of its own."""
    yield from ()
