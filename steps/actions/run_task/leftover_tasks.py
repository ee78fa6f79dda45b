"""Actions that stop ECS tasks left running by an ended step or an earlier attempt."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aws.apis.ecs_types import EcsTask
from aws.errors import NotFound
from steps.actions.base import Action, action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import StepContext
from steps.actions.run_task.launch import get_current_attempt
from steps.actions.task_definitions import deregister_task_definition

# Time until AWS's lists show the tasks of a call whose answer was lost.
LISTING_LAG = timedelta(seconds=30)
# Time for the call of another step whose tasks AWS cannot tell from those of this step.
ATTRIBUTION_TIMEOUT = timedelta(minutes=5)
# Time for leftover tasks to stop; on a container instance without a connection they never do.
STOP_TIMEOUT = timedelta(minutes=5)
STOPPING_STATUSES = ("DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED")


@action
@dataclass(frozen=True)
class StopEarlierTasks(Action):
    """Stop the tasks of an earlier attempt, so that no task runs twice at once."""

    repeats = True

    @property
    def title(self) -> str:
        return "Stop tasks of an earlier attempt"

    def start(self, context: StepContext) -> None:
        _stop_all(context, _list_tasks_of_earlier_attempt(context), "The step that ran this task is retried")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return _confirm_stop(context, call)

    def is_done(self, context: StepContext) -> bool:
        return all(task.last_status == "STOPPED" for task in _list_tasks_of_earlier_attempt(context))


@action
@dataclass(frozen=True)
class FindLeftoverTasks(Action):
    """After a failure or an abort, find every task of the step, even if the answer was lost."""

    repeats = True
    runs_always = True

    @property
    def title(self) -> str:
        return "Find leftover tasks"

    def is_done(self, context: StepContext) -> bool:
        attempt = get_current_attempt(context)
        if attempt is None or context.load_for_rollback(f"{attempt.key} went well"):
            return True
        if not attempt.list_open_batches():
            context.set_outputs(leftTasks=attempt.list_answered_tasks())
            return True
        since = context.progress.setdefault("since", context.now().isoformat())
        waited = context.now() - datetime.fromisoformat(since)
        if attempt.has_similar_open_calls():
            if waited < ATTRIBUTION_TIMEOUT:
                return False
            unrecorded = []
            context.log(
                "It is not known whether the unanswered call of this step started tasks: "
                "another step runs the same task definition. Check the tasks in ECS",
                "warning",
            )
        else:
            unrecorded = attempt.list_unrecorded_tasks()
            if not unrecorded and waited < LISTING_LAG:
                return False
        context.set_outputs(leftTasks=[*attempt.list_answered_tasks(), *unrecorded])
        return True


@action
@dataclass(frozen=True)
class StopLeftoverTasks(Action):
    """Stop the running tasks, and deregister the revision registered for them."""

    repeats = True
    runs_always = True
    registered: bool = True

    @property
    def title(self) -> str:
        return "Stop leftover tasks"

    def start(self, context: StepContext) -> None:
        attempt = get_current_attempt(context)
        if attempt is not None and context.load_for_rollback(f"{attempt.key} went well"):
            return
        _stop_all(context, _list_leftover_tasks(context), "The step that ran this task has ended")
        if self.registered:
            deregister_task_definition(context)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        if call.operation == "StopTask":
            return _confirm_stop(context, call)
        late = is_past_read_lag(context, call)
        if not context.ecs.describe_task_definition(call.params["taskDefinition"]).is_active:
            return Applied({})
        return NotApplied() if late else Unconfirmed()

    def is_done(self, context: StepContext) -> bool:
        open_ids = [task.id for task in _list_leftover_tasks(context) if task.last_status != "STOPPED"]
        if not open_ids:
            return True
        since = context.progress.setdefault("since", context.now().isoformat())
        if context.now() - datetime.fromisoformat(since) < STOP_TIMEOUT:
            return False
        context.log(f"ECS tasks have not stopped yet: {', '.join(open_ids)}. Check them in ECS", "warning")
        return True


def _list_leftover_tasks(context: StepContext) -> list[EcsTask]:
    return _describe_tasks(context, context.get_output("leftTasks") or [])


def _list_tasks_of_earlier_attempt(context: StepContext) -> list[EcsTask]:
    """Return the tasks of the attempt before; one with an open call continues as the same attempt."""
    attempt = get_current_attempt(context)
    if attempt is None or attempt.is_open or context.load_for_rollback(f"{attempt.key} went well"):
        return []
    arns = attempt.list_answered_tasks()
    if attempt.list_open_batches() and not attempt.has_similar_open_calls():
        arns += attempt.list_unrecorded_tasks()
    return _describe_tasks(context, arns)


def _describe_tasks(context: StepContext, arns: list[str]) -> list[EcsTask]:
    return context.ecs.describe_tasks(context.cluster, arns) if arns else []


def _stop_all(context: StepContext, tasks: list[EcsTask], reason: str) -> None:
    for task in tasks:
        if task.last_status in STOPPING_STATUSES or task.desired_status == "STOPPED":
            continue
        context.log(f"Stopping ECS task {task.id}..")
        try:
            context.ecs.stop_task(context.cluster, task.arn, reason)
        except NotFound:
            context.log(f"ECS task {task.id} is already deleted")


def _confirm_stop(context: StepContext, call: CallRecord) -> Confirmation:
    late = is_past_read_lag(context, call)
    tasks = context.ecs.describe_tasks(context.cluster, [call.params["task"]])
    if all(task.desired_status == "STOPPED" for task in tasks):
        return Applied({"task": tasks[0].raw if tasks else {}})
    return NotApplied() if late else Unconfirmed()
