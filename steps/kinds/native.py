"""Steps for deployments that ECS itself runs: blue/green, linear, canary, rolling."""

from dataclasses import dataclass, field
from typing import Final

from steps.actions.approvals import Approvers
from steps.actions.auto_scaling import AttachAutoScaling, ResumeAutoScaling, SuspendAutoScaling
from steps.actions.ecs_service.deployment_health import FailFast
from steps.actions.ecs_service.native_updates import UpdateNativeService
from steps.actions.ecs_service.service_deployments import FollowServiceDeployment
from steps.actions.ecs_service.tags import TagService
from steps.actions.ecs_service.updates import SaveCurrentService
from steps.actions.manifests import FetchManifests
from steps.actions.task_definitions import RegisterTaskDefinition
from steps.kinds.outputs import REVISION_OUTPUTS, SCALING_OUTPUTS, SERVICE_OUTPUTS
from steps.kinds.registry import Plan, step, unit

DEPLOY_TYPE: Final = "EcsNativeDeploy"
ROLLBACK_TYPE: Final = "EcsNativeRollback"


@dataclass(frozen=True)
class EcsNativeDeploySpec:
    """Settings of a deployment by ECS's own strategy; the strategy is that of the service definition."""

    forceNewDeployment: bool | None = None
    """Replace the tasks even if nothing differs; by default only if the task definition is an ARN."""
    sameAsAlreadyRunningInstances: bool = False
    """Deploy as many tasks as run now, instead of the desired count of the service definition."""
    failFast: FailFast = field(default_factory=FailFast)
    approvers: Approvers = field(default_factory=lambda: Approvers(()))
    """Who approves what PAUSE hooks hold; without it they are continued in ECS."""


@dataclass(frozen=True)
class EcsNativeRollbackSpec:
    """Settings of a rollback: none."""


@step(
    DEPLOY_TYPE,
    title="ECS Native Deploy",
    spec=EcsNativeDeploySpec,
    outputs={
        **REVISION_OUTPUTS,
        **SERVICE_OUTPUTS,
        **SCALING_OUTPUTS,
        "serviceDeploymentArn": "The ARN of the service deployment.",
    },
    needs_cluster=True,
    undone_by=ROLLBACK_TYPE,
    timeout_minutes=120,
)
def ecs_native_deploy(spec: EcsNativeDeploySpec) -> Plan:
    """Let ECS deploy by the strategy of the service definition, and follow its stages and traffic."""
    yield unit("Fetch manifests", FetchManifests(for_native=True))
    yield unit("Prepare rollback data", SaveCurrentService(for_native=True))
    yield unit(
        "Deploy",
        RegisterTaskDefinition(compares=True),
        SuspendAutoScaling(),
        UpdateNativeService(force=spec.forceNewDeployment, keep_count=spec.sameAsAlreadyRunningInstances),
        TagService(),
        FollowServiceDeployment(
            fail_fast=spec.failFast,
            groups=list(spec.approvers.userGroups),
            minimum=spec.approvers.minimumCount,
            without_executor=spec.approvers.disallowPipelineExecutor,
        ),
        AttachAutoScaling(),
        ResumeAutoScaling(),
    )


@step(
    ROLLBACK_TYPE,
    title="ECS Native Rollback",
    spec=EcsNativeRollbackSpec,
    needs_cluster=True,
    undoes=(DEPLOY_TYPE,),
    timeout_minutes=120,
)
def ecs_native_rollback(spec: EcsNativeRollbackSpec) -> Plan:
    """Undo the deployments of the stage, newest first; ECS gives the traffic back."""
    yield from ()
