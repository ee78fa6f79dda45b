"""The step that gives an ECS service another count, and its rollback."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from steps.actions.scale import COUNT, PERCENTAGE, FindServiceToScale, ScaleService, WaitForCount
from steps.actions.scaling import ResumeAutoScaling, SuspendAutoScaling
from steps.expressions import has_expression
from steps.kinds.base import BadStepError, Plan, about, step, unit

MOST = {COUNT: 5000, PERCENTAGE: 1000}


@dataclass(frozen=True)
class EcsScaleSpec:
    """Which ECS service, and how many tasks: a count, or a percentage of those wanted before."""

    service: str = field(
        metadata=about("The name of an ECS service, such as <+steps.deploy.output.serviceName>.")
    )
    instances: int = field(
        metadata=about("How many tasks, or how many of a hundred that were wanted before.")
    )
    instanceUnit: str = field(default=COUNT, metadata=about("", COUNT, PERCENTAGE))
    """Whether `instances` is a count or a percentage of the desired count."""
    skipSteadyStateCheck: bool = field(
        default=False, metadata=about("Go on without waiting until the tasks run.")
    )

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        if problem := next(self._problems(), ""):
            raise BadStepError(f"EcsScale: {problem}")

    def _problems(self) -> Iterator[str]:
        if not self.service.strip():
            yield "service is the name of an ECS service, such as <+steps.deploy.output.serviceName>"
        if self.instanceUnit not in MOST and not has_expression(self.instanceUnit):
            yield f"instanceUnit is {COUNT} or {PERCENTAGE}, not {self.instanceUnit!r}"
        most = MOST.get(self.instanceUnit, MOST[COUNT])
        if isinstance(self.instances, int) and not 0 <= self.instances <= most:
            yield f"instances is from 0 to {most}, not {self.instances}"


@dataclass(frozen=True)
class EcsScaleRollbackSpec:
    """A rollback of a scaling has nothing to choose."""


@step(
    "EcsScale",
    title="ECS Scale",
    spec=EcsScaleSpec,
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
    undoes=("EcsScale",),
    timeout_minutes=10,
)
def ecs_scale_rollback(spec: EcsScaleRollbackSpec) -> Plan:
    """The place where scalings are undone; it has no actions of its own."""
    yield from ()
