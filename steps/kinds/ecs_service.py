"""Steps for one existing ECS service: scale it, hand it to ECS, delete it; with their rollback steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem
from steps.actions.auto_scaling import ResumeAutoScaling, SuspendAutoScaling
from steps.actions.ecs_service.controller_changes import ChangeController, SaveController
from steps.actions.ecs_service.deletion import DeleteEcsService, SaveServiceToDelete, StopServiceTasks
from steps.actions.ecs_service.desired_count import (
    COUNT,
    PERCENTAGE,
    SCALE_STEP_TYPE,
    FindServiceToScale,
    ScaleService,
    WaitForCount,
)
from steps.actions.leftover_services import DeleteLeftover
from steps.expressions import has_expression
from steps.kinds.outputs import SCALING_OUTPUTS
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit

AMOUNT_LIMITS = {COUNT: 5000, PERCENTAGE: 1000}
_MOST_EXPECTED = 100
_CHANGE_TYPE, _CHANGE_ROLLBACK_TYPE = "EcsChangeController", "EcsChangeControllerRollback"


@dataclass(frozen=True)
class EcsScaleSpec:
    """Settings of a scaling: ECS service, and a count or a percentage of the previous count."""

    service: str = field(
        metadata=describe_field("The name of an ECS service, such as <+steps.deploy.output.serviceName>.")
    )
    instances: int = field(
        metadata=describe_field("How many tasks, or how many of a hundred that were wanted before.")
    )
    instanceUnit: str = field(default=COUNT, metadata=describe_field("", COUNT, PERCENTAGE))
    """Whether `instances` is a count or a percentage of the desired count."""
    skipSteadyStateCheck: bool = field(
        default=False, metadata=describe_field("Go on without waiting until the tasks run.")
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"EcsScale: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if not self.service.strip():
            yield "service is the name of an ECS service, such as <+steps.deploy.output.serviceName>"
        if self.instanceUnit not in AMOUNT_LIMITS and not has_expression(self.instanceUnit):
            yield f"instanceUnit is {COUNT} or {PERCENTAGE}, not {self.instanceUnit!r}"
        maximum = AMOUNT_LIMITS.get(self.instanceUnit, AMOUNT_LIMITS[COUNT])
        if isinstance(self.instances, int) and not 0 <= self.instances <= maximum:
            yield f"instances is from 0 to {maximum}, not {self.instances}"


@dataclass(frozen=True)
class EcsScaleRollbackSpec:
    """Settings of the rollback of a scaling: none."""


_SCALE_OUTPUTS = {
    "serviceName": "The name of the ECS service.",
    "serviceArn": "The ARN of the ECS service.",
    "countBefore": "How many tasks were wanted before.",
    "desiredCount": "How many tasks are wanted.",
    **SCALING_OUTPUTS,
}


@step(
    SCALE_STEP_TYPE,
    title="ECS Scale",
    spec=EcsScaleSpec,
    outputs=_SCALE_OUTPUTS,
    needs_cluster=True,
    undone_by="EcsScaleRollback",
    timeout_minutes=10,
    starter={"service": "<+service.name>", "instances": 2},
)
def ecs_scale(spec: EcsScaleSpec) -> Plan:
    """Change the desired count and nothing else; auto scaling pauses meanwhile."""
    yield unit(
        "Scale",
        FindServiceToScale(spec.service),
        SuspendAutoScaling(),
        ScaleService(spec.instances, spec.instanceUnit),
        *(() if spec.skipSteadyStateCheck else (WaitForCount(),)),
        ResumeAutoScaling(),
    )


@step(
    "EcsScaleRollback",
    title="ECS Scale Rollback",
    spec=EcsScaleRollbackSpec,
    needs_cluster=True,
    undoes=(SCALE_STEP_TYPE,),
    timeout_minutes=10,
)
def ecs_scale_rollback(spec: EcsScaleRollbackSpec) -> Plan:
    """Undo the scalings of the stage; it has no actions of its own."""
    yield from ()


@dataclass(frozen=True)
class EcsChangeControllerSpec:
    """The ECS service that ECS takes over."""

    service: str = field(
        metadata=describe_field("The name of an ECS service that CodeDeploy or another tool deploys.")
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if not self.service.strip():
            raise BadStepError(f"{_CHANGE_TYPE}: service is the name of an ECS service")


@dataclass(frozen=True)
class EcsChangeControllerRollbackSpec:
    """Settings of the rollback of a change: none."""


@step(
    _CHANGE_TYPE,
    title="ECS Change Controller",
    spec=EcsChangeControllerSpec,
    outputs={
        "serviceName": "The name of the ECS service.",
        "serviceArn": "The ARN of the ECS service.",
        "controllerBefore": "The deployment controller before: CODE_DEPLOY, EXTERNAL or ECS.",
    },
    needs_cluster=True,
    undone_by=_CHANGE_ROLLBACK_TYPE,
    timeout_minutes=30,
    starter={"service": "<+service.name>"},
)
def ecs_change_controller(spec: EcsChangeControllerSpec) -> Plan:
    """Make ECS the deployment controller of a service, in place; a service of ECS stays as it is."""
    yield unit("Change controller", SaveController(spec.service), ChangeController(spec.service))


@step(
    _CHANGE_ROLLBACK_TYPE,
    title="ECS Change Controller Rollback",
    spec=EcsChangeControllerRollbackSpec,
    needs_cluster=True,
    undoes=(_CHANGE_TYPE,),
    timeout_minutes=30,
)
def ecs_change_controller_rollback(spec: EcsChangeControllerRollbackSpec) -> Plan:
    """Give the service back to its earlier deployment controller."""
    yield from ()


@dataclass(frozen=True)
class EcsCleanUpSpec:
    """Settings of a clean-up: the ECS service, and the stage listener and rule."""

    service: str
    """The ECS service to delete."""
    stageListener: str = ""
    """The stage listener, whose traffic does not protect the ECS service from deletion."""
    stageListenerRuleArn: str = ""
    """The rule of the stage listener; empty for its default rule."""


@step(
    "EcsCleanUp",
    title="ECS Clean Up",
    spec=EcsCleanUpSpec,
    timeout_minutes=30,
    outputs={"serviceName": "The ECS service that was deleted."},
    needs_cluster=True,
)
def ecs_clean_up(spec: EcsCleanUpSpec) -> Plan:
    """Delete one leftover ECS service, unless a check finds that it receives production traffic."""
    yield unit("Clean up", DeleteLeftover(spec.service, spec.stageListener, spec.stageListenerRuleArn))


@dataclass(frozen=True)
class EcsDeleteServiceSpec:
    """The ECS service to delete, with what it must run."""

    service: str = field(metadata=describe_field("The name of the ECS service; its tasks are ended first."))
    expected: list[str] = field(
        default_factory=list,
        metadata=describe_field(
            "Ids of deployments and ARNs of task definitions: with any other one, somebody else has deployed "
            "the service, and it stays. Without any, it is deleted as it is.",
        ),
    )
    delegate: str = field(
        default="",
        metadata=describe_field(
            "The delegate that runs in the service, if any: the calls of the stage go to another one.",
            is_rare=True,
        ),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"EcsDeleteService: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if not self.service.strip():
            yield "service is the name of an ECS service"
        if len(self.expected) > _MOST_EXPECTED or not all(isinstance(entry, str) for entry in self.expected):
            yield f"expected is a list of {_MOST_EXPECTED} texts at most"
        if self.delegate and not has_expression(self.delegate):
            problem = find_name_problem(self.delegate, NAME_CHARACTERS)
            if problem:
                yield f"delegate: {problem.reason}; {problem.remedy}"


@step(
    "EcsDeleteService",
    title="ECS Delete Service",
    spec=EcsDeleteServiceSpec,
    timeout_minutes=30,
    outputs={
        "serviceName": "The name of the ECS service.",
        "serviceArn": "The ARN of the ECS service; empty if it was deleted before.",
    },
    needs_cluster=True,
    starter={"service": "my-service"},
)
def ecs_delete_service(spec: EcsDeleteServiceSpec) -> Plan:
    """End the tasks of an ECS service and delete it; a missing one is a success, and nothing is undone."""
    arguments = spec.service, list(spec.expected)
    yield unit(
        "Delete service",
        SaveServiceToDelete(*arguments),
        StopServiceTasks(*arguments),
        DeleteEcsService(*arguments),
    )
