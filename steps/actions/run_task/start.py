"""The action that starts the tasks, ten to a call."""

from dataclasses import dataclass

from aws.errors import AwsError
from steps.actions.base import (
    Action,
    ActionFailed,
    AskAgain,
    CallRecord,
    DidNot,
    Happened,
    Rollout,
    Verdict,
    action,
)
from steps.actions.run_task.refusals import in_words
from steps.actions.run_task.started import TASKS_PER_CALL, Try, begin_try, current_try
from steps.actions.timing import is_old_enough_to_deny


@action
@dataclass(frozen=True)
class RunTasks(Action):
    """Run the tasks in the name of this execution; `hands_over` means that nobody waits for their end."""

    repeats = True
    hands_over: bool = False

    @property
    def title(self) -> str:
        return "Run the tasks"

    def start(self, rollout: Rollout) -> None:
        request = rollout.recall("request")
        left = request.get("count", 1)
        this = begin_try(rollout)
        this.remember_before()
        rollout.log(f"Running {left} ECS task{'s' if left != 1 else ''} in cluster {rollout.cluster}")
        number = 0
        while left:
            count = min(left, TASKS_PER_CALL)
            self._run(rollout, this, number, count)
            left, number = left - count, number + 1
        if self.hands_over:
            rollout.remember(f"{this.key} went well", True)
            rollout.log("Skipped Steady State Check")

    def _run(self, rollout: Rollout, this: Try, number: int, count: int) -> None:
        request = {
            **rollout.recall("request"),
            "taskDefinition": rollout.know("taskDefinitionArn"),
            "count": count,
            "startedBy": rollout.execution_id,
        }
        this.begin(number, count)
        try:
            answer = rollout.ecs.run_task(request, rollout.cluster, f"{rollout.intent}-{number}")
        except AwsError:
            this.end(number, [])
            raise
        this.end(number, [task.arn for task in answer.tasks])
        rollout.learn(taskArns=this.answered())
        for task in answer.tasks:
            rollout.log(f"Started ECS task {task.id} with Arn {task.arn}")
        if answer.failures or len(answer.tasks) < count:
            raise _refused(rollout, count, len(answer.tasks), in_words(answer.failures))

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        late = is_old_enough_to_deny(rollout, call)
        this = current_try(rollout)
        arns = this.not_yet_known() if this else []
        if len(arns) >= call.params["count"]:
            tasks = rollout.ecs.describe_tasks(rollout.cluster, arns)
            return Happened({"tasks": [task.raw for task in tasks], "failures": []})
        # Sent again with its token, it gives the tasks of the first time, with what was refused then.
        return DidNot() if late else AskAgain()


def _refused(rollout: Rollout, wanted: int, started: int, reasons: list[str]) -> ActionFailed:
    for reason in reasons:
        rollout.log(f"AWS did not start a task: {reason}", "error")
    why = " ".join(dict.fromkeys(reasons)) or "AWS gave no reason."
    return ActionFailed("TASK_NOT_STARTED", f"AWS started {started} of {wanted} ECS tasks. {why}")
