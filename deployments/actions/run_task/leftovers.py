"""The actions that run however a run-task step ended: no task of a step that is over goes on running."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aws.errors import AwsError, NotFound
from aws.types import EcsTask
from deployments.actions.base import Action, AskAgain, CallRecord, DidNot, Happened, Rollout, Verdict, action
from deployments.actions.run_task.started import current_try
from deployments.actions.timing import is_old_enough_to_deny

# An answer that was lost with its worker: half a minute later AWS's lists show what it started.
LISTED_AFTER = timedelta(seconds=30)
ENDING = ("DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED")


@action
@dataclass(frozen=True)
class FindLeftTasks(Action):
    """After a failure or an abort, find every task that the step started, also those of a lost answer."""

    repeats = True
    runs_always = True

    @property
    def title(self) -> str:
        return "Look for tasks that were left behind"

    def is_done(self, rollout: Rollout) -> bool:
        this = current_try(rollout)
        if this is None or rollout.recall(f"{this.key} went well"):
            return True
        if not this.open_batches():
            rollout.learn(leftTasks=this.answered())
            return True
        found = this.not_yet_known()
        since = rollout.progress.setdefault("since", rollout.now().isoformat())
        if not found and rollout.now() - datetime.fromisoformat(since) < LISTED_AFTER:
            return False
        rollout.learn(leftTasks=[*this.answered(), *found])
        return True


@action
@dataclass(frozen=True)
class StopLeftTasks(Action):
    """Stop what still runs, and deregister the revision that was made for it."""

    repeats = True
    runs_always = True
    registered: bool = True

    @property
    def title(self) -> str:
        return "Stop tasks that were left behind"

    def start(self, rollout: Rollout) -> None:
        this = current_try(rollout)
        if this is not None and rollout.recall(f"{this.key} went well"):
            return
        for task in _described(rollout):
            if task.last_status not in ENDING and task.desired_status != "STOPPED":
                rollout.log(f"Stopping ECS task {task.id}..")
                _stop(rollout, task)
        if self.registered:
            _deregister(rollout)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        late = is_old_enough_to_deny(rollout, call)
        if call.operation == "StopTask":
            tasks = rollout.ecs.describe_tasks(rollout.cluster, [call.params["task"]])
            if all(task.desired_status == "STOPPED" for task in tasks):
                return Happened({"task": tasks[0].raw if tasks else {}})
        elif not rollout.ecs.describe_task_definition(call.params["taskDefinition"]).is_active:
            return Happened({})
        return DidNot() if late else AskAgain()

    def is_done(self, rollout: Rollout) -> bool:
        return all(task.last_status == "STOPPED" for task in _described(rollout))


def _described(rollout: Rollout) -> list[EcsTask]:
    arns = rollout.know("leftTasks") or []
    return rollout.ecs.describe_tasks(rollout.cluster, arns) if arns else []


def _stop(rollout: Rollout, task: EcsTask) -> None:
    try:
        rollout.ecs.stop_task(rollout.cluster, task.arn, "The execution that ran this task has ended")
    except NotFound:
        rollout.log(f"ECS task {task.id} is gone already")


def _deregister(rollout: Rollout) -> None:
    arn = rollout.know("taskDefinitionArn")
    if not arn:
        return
    try:
        rollout.ecs.deregister_task_definition(arn)
        rollout.log(f"Deregistered Task Definition {arn}")
    except NotFound:
        rollout.log(f"Task Definition {arn} is already gone")
    except AwsError as error:
        # It runs nowhere; leaving it behind harms nobody.
        rollout.log(f"Task Definition {arn} stays registered: {error.sentence}", "warning")
