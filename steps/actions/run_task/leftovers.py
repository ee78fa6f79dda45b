"""The actions that run however a run-task step ended: no task of a step that is over goes on running."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aws.errors import NotFound
from aws.types import EcsTask
from steps.actions.base import Action, AskAgain, CallRecord, DidNot, Happened, Rollout, Verdict, action
from steps.actions.run_task.started import current_try
from steps.actions.task_definition import deregister
from steps.actions.timing import is_old_enough_to_deny

# An answer that was lost with its worker: half a minute later AWS's lists show what it started.
LISTED_AFTER = timedelta(seconds=30)
ENDING = ("DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED")


@action
@dataclass(frozen=True)
class StopEarlierTasks(Action):
    """End what an earlier try of the step has left running, so that nothing runs twice at once."""

    repeats = True

    @property
    def title(self) -> str:
        return "Stop tasks of an earlier try"

    def start(self, rollout: Rollout) -> None:
        _stop_all(rollout, _of_earlier_try(rollout), "The step that ran this task is tried again")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return _adopt_stop(rollout, call)

    def is_done(self, rollout: Rollout) -> bool:
        return all(task.last_status == "STOPPED" for task in _of_earlier_try(rollout))


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
        _stop_all(rollout, _left(rollout), "The step that ran this task has ended")
        if self.registered:
            deregister(rollout)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        if call.operation == "StopTask":
            return _adopt_stop(rollout, call)
        late = is_old_enough_to_deny(rollout, call)
        if not rollout.ecs.describe_task_definition(call.params["taskDefinition"]).is_active:
            return Happened({})
        return DidNot() if late else AskAgain()

    def is_done(self, rollout: Rollout) -> bool:
        return all(task.last_status == "STOPPED" for task in _left(rollout))


def _left(rollout: Rollout) -> list[EcsTask]:
    return _described(rollout, rollout.know("leftTasks") or [])


def _of_earlier_try(rollout: Rollout) -> list[EcsTask]:
    """What the try before this one started; one whose answer is still to come goes on as the same try."""
    this = current_try(rollout)
    if this is None or this.open_batches() or rollout.recall(f"{this.key} went well"):
        return []
    return _described(rollout, this.answered())


def _described(rollout: Rollout, arns: list[str]) -> list[EcsTask]:
    return rollout.ecs.describe_tasks(rollout.cluster, arns) if arns else []


def _stop_all(rollout: Rollout, tasks: list[EcsTask], reason: str) -> None:
    for task in tasks:
        if task.last_status in ENDING or task.desired_status == "STOPPED":
            continue
        rollout.log(f"Stopping ECS task {task.id}..")
        try:
            rollout.ecs.stop_task(rollout.cluster, task.arn, reason)
        except NotFound:
            rollout.log(f"ECS task {task.id} is gone already")


def _adopt_stop(rollout: Rollout, call: CallRecord) -> Verdict:
    late = is_old_enough_to_deny(rollout, call)
    tasks = rollout.ecs.describe_tasks(rollout.cluster, [call.params["task"]])
    if all(task.desired_status == "STOPPED" for task in tasks):
        return Happened({"task": tasks[0].raw if tasks else {}})
    return DidNot() if late else AskAgain()
