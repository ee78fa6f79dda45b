"""Step that hands an ECS service from another deployment controller to ECS; with its rollback step."""

from dataclasses import dataclass, field

from steps.actions.ecs_service.controller_changes import ChangeController, SaveController
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit

CHANGE_TYPE = "EcsChangeController"
ROLLBACK_TYPE = "EcsChangeControllerRollback"


@dataclass(frozen=True)
class EcsChangeControllerSpec:
    """The ECS service that ECS takes over."""

    service: str = field(
        metadata=describe_field("The name of an ECS service that CodeDeploy or another tool deploys.")
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if not self.service.strip():
            raise BadStepError(f"{CHANGE_TYPE}: service is the name of an ECS service")


@dataclass(frozen=True)
class EcsChangeControllerRollbackSpec:
    """Settings of the rollback of a change: none."""


@step(
    CHANGE_TYPE,
    title="ECS Change Controller",
    spec=EcsChangeControllerSpec,
    outputs={
        "serviceName": "The name of the ECS service.",
        "serviceArn": "The ARN of the ECS service.",
        "controllerBefore": "The deployment controller before: CODE_DEPLOY, EXTERNAL or ECS.",
    },
    needs_cluster=True,
    undone_by=ROLLBACK_TYPE,
    timeout_minutes=30,
    starter={"service": "<+service.name>"},
)
def ecs_change_controller(spec: EcsChangeControllerSpec) -> Plan:
    """Make ECS the deployment controller of a service, in place; a service of ECS stays as it is."""
    yield unit("Change controller", SaveController(spec.service), ChangeController(spec.service))


@step(
    ROLLBACK_TYPE,
    title="ECS Change Controller Rollback",
    spec=EcsChangeControllerRollbackSpec,
    needs_cluster=True,
    undoes=(CHANGE_TYPE,),
    timeout_minutes=30,
)
def ecs_change_controller_rollback(spec: EcsChangeControllerRollbackSpec) -> Plan:
    """Give the service back to its earlier deployment controller."""
    yield from ()
