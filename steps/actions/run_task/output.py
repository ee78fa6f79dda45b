"""What the containers of running tasks print, brought into the step's log as it is written."""

from typing import Any

from aws.errors import AwsError
from aws.types import EcsTask
from guards.limits import TASK_LOG_LINES, TASK_LOG_READS
from steps.actions.base import Rollout
from steps.actions.diagnosis import log_place

LINES_PER_READ = 100
WROTE = ("RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED")


def stream(rollout: Rollout, tasks: list[EcsTask]) -> set[str]:
    """Log what the containers have written since the last look; the ARNs of tasks that had nothing to say.

    A look makes a few reads only: whose turn it was not comes first in the next one.
    """
    streams: dict[str, Any] = rollout.progress.setdefault("streams", {})
    waiting = [task for task in tasks if task.last_status in WROTE]
    waiting.sort(key=lambda task: streams.get(task.arn, {}).get("read", 0))
    quiet: set[str] = set()
    left = int(TASK_LOG_READS)
    for task in waiting:
        if left <= 0:
            break
        reads, said = _read_task(rollout, task, streams.setdefault(task.arn, {"read": 0, "tokens": {}}))
        left -= reads
        if not said:
            quiet.add(task.arn)
    return quiet


def _read_task(rollout: Rollout, task: EcsTask, notes: dict[str, Any]) -> tuple[int, bool]:
    """Read each container of a task once; how many reads that took, and whether there was anything new."""
    notes["read"] += 1
    reads, said = 0, False
    for container in task.containers:
        if container.name in notes.get("closed", ()):
            continue
        place = log_place(rollout, task, container)
        if place is None:
            _tell_silent(rollout, container.name)
            continue
        reads += 1
        said |= _read(rollout, task, container.name, place, notes)
    return reads, said


def _read(
    rollout: Rollout, task: EcsTask, container: str, place: tuple[str, str], notes: dict[str, Any]
) -> bool:
    group, name = place
    tokens: dict[str, str] = notes["tokens"]
    try:
        page = rollout.logs.read(group, name, tokens.get(container, ""), LINES_PER_READ)
    except AwsError as error:
        if error.is_retryable:
            raise
        notes.setdefault("closed", []).append(container)
        rollout.log(f"The output of container {container} cannot be read: {error.sentence}", "warning")
        return False
    tokens[container] = page.token
    for event in page.events:
        for line in event.message.rstrip("\n").split("\n"):
            if not _may_say(rollout, group):
                return False
            rollout.log(f"{_prefix(rollout, task, container)} | {line}")
    return bool(page.events)


def _prefix(rollout: Rollout, task: EcsTask, container: str) -> str:
    several = len(rollout.know("taskArns") or []) > 1
    return f"{task.id[:8]} {container}" if several else container


def _may_say(rollout: Rollout, group: str) -> bool:
    """The log of a step is for reading: the rest of a flood stays where it is."""
    said: int = rollout.progress.get("said", 0) + 1
    rollout.progress["said"] = said
    if said == TASK_LOG_LINES + 1:
        rollout.log(f"The tasks have written {TASK_LOG_LINES}; the rest is in log group {group}.", "warning")
    return said <= TASK_LOG_LINES


def _tell_silent(rollout: Rollout, container: str) -> None:
    told: list[str] = rollout.progress.setdefault("silent", [])
    if container not in told:
        told.append(container)
        rollout.log(
            f"Container {container} has no awslogs configuration with a stream prefix, so its output is not "
            "shown here"
        )
