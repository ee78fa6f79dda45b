"""Run task step: ECS tasks that end by themselves, such as a migration (R252-R255)."""

from dataclasses import dataclass, field
from typing import Any

from steps.actions.manifests import TASK_DEFINITION
from steps.actions.run_task import (
    FetchRunTask,
    FindLeftoverTasks,
    RegisterTaskToRun,
    RunTasks,
    StopEarlierTasks,
    StopLeftoverTasks,
    WaitForTasks,
)
from steps.actions.run_task.launch import RUN_TASK_REQUEST, RUN_TASK_STEP_TYPE
from steps.kinds.outputs import REVISION_OUTPUTS
from steps.kinds.registry import BadStepError, Plan, step, unit


@dataclass(frozen=True)
class EcsRunTaskSpec:
    """Settings of ECS tasks: their own or a registered task definition, and the request.

    With `skipSteadyStateCheck` the step does not wait for the tasks (T03).
    """

    runTaskRequestDefinition: dict[str, Any]
    """The request, as AWS's RunTask takes it."""
    taskDefinition: dict[str, Any] = field(default_factory=dict)
    """The task definition to register and run; or give `taskDefinitionArn`."""
    taskDefinitionArn: str = ""
    """A registered task definition: an ARN, `family:revision` or a family."""
    skipSteadyStateCheck: bool = False
    """Start the tasks without waiting for their end."""

    def __post_init__(self) -> None:
        """Raise `BadStepError` unless exactly one of the two task definition fields is set."""
        if bool(self.taskDefinition) == bool(self.taskDefinitionArn):
            raise BadStepError("EcsRunTask needs either taskDefinition or taskDefinitionArn under spec")


_OUTPUTS = {
    **REVISION_OUTPUTS,
    "taskArns": "The ARNs of the tasks that were started, a list.",
    "exitCodes": "By task: the exit codes of its containers.",
}


@step(
    RUN_TASK_STEP_TYPE,
    title="ECS Run Task",
    spec=EcsRunTaskSpec,
    outputs=_OUTPUTS,
    failure_outputs=("leftTasks",),
    needs_cluster=True,
    timeout_minutes=30,
    manifests={"taskDefinition": TASK_DEFINITION, "runTaskRequestDefinition": RUN_TASK_REQUEST},
)
def ecs_run_task(spec: EcsRunTaskSpec) -> Plan:
    """Run the tasks, follow them to their end, and leave none behind however the step ends."""
    arn = spec.taskDefinitionArn
    yield unit("Fetch manifests", FetchRunTask(definition_arn=arn))
    yield unit(
        "Run task",
        StopEarlierTasks(),
        *(() if arn else (RegisterTaskToRun(),)),
        RunTasks(hands_over=spec.skipSteadyStateCheck),
        *(() if spec.skipSteadyStateCheck else (WaitForTasks(),)),
        FindLeftoverTasks(),
        StopLeftoverTasks(registered=not arn),
    )
