"""Scale step: changes the desired count of an ECS service; with its rollback step."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from steps.actions.auto_scaling import ResumeAutoScaling, SuspendAutoScaling
from steps.actions.ecs_service.desired_count import (
    COUNT,
    PERCENTAGE,
    FindServiceToScale,
    ScaleService,
    WaitForCount,
)
from steps.expressions import has_expression
from steps.kinds.outputs import SCALING_OUTPUTS
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit

AMOUNT_LIMITS = {COUNT: 5000, PERCENTAGE: 1000}


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


_OUTPUTS = {
    "serviceName": "The name of the ECS service.",
    "serviceArn": "The ARN of the ECS service.",
    "countBefore": "How many tasks were wanted before.",
    "desiredCount": "How many tasks are wanted.",
    **SCALING_OUTPUTS,
}


@step(
    "EcsScale",
    title="ECS Scale",
    spec=EcsScaleSpec,
    outputs=_OUTPUTS,
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
    undoes=("EcsScale",),
    timeout_minutes=10,
)
def ecs_scale_rollback(spec: EcsScaleRollbackSpec) -> Plan:
    """Undo the scalings of the stage; it has no actions of its own."""
    yield from ()
