"""The action that follows tasks to their end: their output, their exit codes, and why one failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.types import Container, EcsTask
from steps.actions.base import Action, ActionFailed, Rollout, action
from steps.actions.causes import Cause, cause_of
from steps.actions.diagnosis import culprit, tell
from steps.actions.run_task.output import stream
from steps.actions.run_task.started import current_try
from steps.actions.timing import forget, is_confirmed

BY_ITSELF = ("", "EssentialContainerExited")


@action
@dataclass(frozen=True)
class WaitForTasks(Action):
    """Look until every task is STOPPED; each container must have ended with code 0 (T03)."""

    repeats = True

    @property
    def title(self) -> str:
        return "Wait for the tasks to end"

    def is_done(self, rollout: Rollout) -> bool:
        ended: dict[str, Any] = rollout.progress.setdefault("ended", {})
        arns = [arn for arn in rollout.know("taskArns") or [] if arn not in ended]
        tasks = rollout.ecs.describe_tasks(rollout.cluster, arns) if arns else []
        _miss(rollout, arns, tasks)
        _narrate(rollout, tasks, len(ended))
        quiet = stream(rollout, tasks)
        for task in tasks:
            if task.last_status == "STOPPED" and task.arn in quiet:
                ended[task.arn] = _note_end(rollout, task)
        if len(ended) < len(rollout.know("taskArns") or []):
            return False
        rollout.learn(exitCodes={arn.rsplit("/", 1)[-1]: end["codes"] for arn, end in ended.items()})
        _judge(list(ended.values()))
        this = current_try(rollout)
        if this is not None:
            rollout.remember(f"{this.key} went well", True)
        _tell_success(rollout, len(ended))
        return True


def _tell_success(rollout: Rollout, count: int) -> None:
    what = "The ECS task has" if count == 1 else f"All {count} ECS tasks have"
    rollout.log(f"{what} ended, every container with exit code 0", "success")


def _miss(rollout: Rollout, arns: list[str], tasks: list[EcsTask]) -> None:
    """AWS forgets a task an hour after its end; what became of one that was not seen ending is unknown."""
    found = {task.arn for task in tasks}
    for arn in arns:
        if arn in found:
            forget(rollout, arn)
        elif is_confirmed(rollout, arn, rollout.now()):
            raise ActionFailed(
                "TASK_UNKNOWN",
                f"AWS no longer knows ECS task {arn.rsplit('/', 1)[-1]}, so nobody can say how it ended. "
                "Look at what it was to do, and run again if it was not done.",
            )


def _narrate(rollout: Rollout, tasks: list[EcsTask], ended: int) -> None:
    """One line per change of how many tasks are where."""
    states: dict[str, int] = {"STOPPED": ended} if ended else {}
    for task in tasks:
        states[task.last_status] = states.get(task.last_status, 0) + 1
    line = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    if rollout.progress.get("states") != line:
        rollout.progress["states"] = line
        rollout.log(f"Waiting for the ECS tasks to end: {line}")
    rollout.show_counts(
        running=states.get("RUNNING", 0), desired=len(tasks) + ended, pending=states.get("PENDING", 0)
    )


def _note_end(rollout: Rollout, task: EcsTask) -> dict[str, Any]:
    """What a later look needs of a task that has ended; a failure is explained at once."""
    codes = {one.name: one.exit_code for one in task.containers}
    failed = _failed_container(task)
    if failed is None and task.stop_code in BY_ITSELF:
        rollout.log(f"ECS task {task.id} has ended: {_said(codes)}")
        return {"codes": codes}
    container = failed or culprit(task)
    cause = _cause(rollout, task, failed, container)
    for line in tell(rollout, task, container, cause, title="This task failed"):
        rollout.log(line, "error" if line else "info")
    return {
        "codes": codes,
        "failure": {
            "code": cause.code,
            "message": f"ECS task {task.id} failed: {cause.message}",
            "container": container.name if container else "",
            "exit_code": container.exit_code if container else None,
        },
    }


def _failed_container(task: EcsTask) -> Container | None:
    """The container that keeps the task from counting as good: a bad code first, else one that never ran."""
    bad = [one for one in task.containers if one.exit_code]
    silent = [one for one in task.containers if one.exit_code is None]
    return next(iter([*bad, *silent]), None)


def _cause(rollout: Rollout, task: EcsTask, failed: Container | None, shown: Container | None) -> Cause:
    if failed is None:
        # Every code is 0, but somebody ended the task: it may not have finished what it was to do.
        why = task.stopped_reason or "no reason given"
        return Cause(
            "TASK_STOPPED",
            f"it was stopped before its end ({task.stop_code}: {why}).",
            "Find out who stopped it, and run again if its work is not done.",
        )
    if failed.exit_code and not _is_essential(rollout, failed.name):
        return Cause(
            "CONTAINER_EXITED",
            f"container {failed.name}, which is not essential, exited with code {failed.exit_code}.",
            "Every container of the task must end with code 0: let this one end well when it is stopped.",
        )
    return cause_of(task, shown)


def _is_essential(rollout: Rollout, name: str) -> bool:
    containers = (rollout.recall("task definition") or {}).get("containerDefinitions", [])
    return all(one.get("essential", True) for one in containers if one.get("name") == name)


def _judge(ends: list[Mapping[str, Any]]) -> None:
    failures = [end["failure"] for end in ends if "failure" in end]
    if not failures:
        return
    first = failures[0]
    how_many = f"{len(failures)} of {len(ends)} ECS tasks failed. " if len(ends) > 1 else ""
    raise ActionFailed(
        first["code"],
        f"{how_many}{first['message']}",
        container=first["container"],
        exit_code=first["exit_code"],
    )


def _said(codes: Mapping[str, int | None]) -> str:
    return ", ".join(f"container {name} exited with code {code}" for name, code in codes.items())
