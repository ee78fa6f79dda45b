"""Completion of ECS tasks: container output, exit codes, cause of a failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import EcsContainer, EcsTask
from aws.errors import AwsError
from aws.stop_reasons import FailureCause, find_cause, find_failed_container
from guards.limits import TASK_LOG_LINES, TASK_LOG_READS
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import clear_observation, is_observed_twice
from steps.actions.context import StepContext
from steps.actions.ecs_service.diagnosis import (
    find_log_stream,
    list_last_output,
    log_diagnosis,
)
from steps.actions.run_task.launch import get_current_attempt

LINES_PER_READ = 100
STATUSES_WITH_OUTPUT = ("RUNNING", "DEACTIVATING", "STOPPING", "DEPROVISIONING", "STOPPED")


def copy_output(context: StepContext, tasks: list[EcsTask]) -> set[str]:
    """Log the containers' new output; return the ARNs of tasks without new output.

    One check makes a limited number of reads; the tasks that were not read come first in the next one.
    """
    streams: dict[str, Any] = context.progress.setdefault("streams", {})
    waiting = [task for task in tasks if task.last_status in STATUSES_WITH_OUTPUT]
    waiting.sort(key=lambda task: streams.get(task.arn, {}).get("read", 0))
    silent_tasks: set[str] = set()
    remaining_reads = int(TASK_LOG_READS)
    for task in waiting:
        if remaining_reads <= 0:
            break
        reads, has_output = _read_task(context, task, streams.setdefault(task.arn, {"read": 0, "tokens": {}}))
        remaining_reads -= reads
        if not has_output:
            silent_tasks.add(task.arn)
    return silent_tasks


def _read_task(context: StepContext, task: EcsTask, notes: dict[str, Any]) -> tuple[int, bool]:
    """Read each container of a task once; return the number of reads and whether there was output."""
    notes["read"] += 1
    reads, has_output = 0, False
    for container in task.containers:
        if container.name in notes.get("closed", ()):
            continue
        location = find_log_stream(context, task, container)
        if location is None:
            _log_missing_output(context, container.name)
            continue
        reads += 1
        has_output |= _read_container(context, task, container.name, location, notes)
    return reads, has_output


def _read_container(
    context: StepContext, task: EcsTask, container: str, location: tuple[str, str], notes: dict[str, Any]
) -> bool:
    group, name = location
    tokens: dict[str, str] = notes["tokens"]
    try:
        page = context.logs.read(group, name, tokens.get(container, ""), LINES_PER_READ)
    except AwsError as error:
        if error.is_retryable:
            raise
        notes.setdefault("closed", []).append(container)
        context.log(f"Could not read the output of container {container}: {error.display_message}", "warning")
        return False
    tokens[container] = page.token
    for event in page.events:
        for line in event.message.rstrip("\n").split("\n"):
            if not _is_within_line_limit(context, group):
                return False
            context.log(f"{_get_line_prefix(context, task, container)} | {line}")
    return bool(page.events)


def _get_line_prefix(context: StepContext, task: EcsTask, container: str) -> str:
    is_one_of_several = len(context.get_output("taskArns") or []) > 1
    return f"{task.id[:8]} {container}" if is_one_of_several else container


def _is_within_line_limit(context: StepContext, group: str) -> bool:
    """Return whether the line is within the limit of the step's log; the rest stays in CloudWatch."""
    line_count: int = context.progress.get("line count", 0) + 1
    context.progress["line count"] = line_count
    if line_count == TASK_LOG_LINES + 1:
        context.log(f"The tasks have written {TASK_LOG_LINES}; the rest is in log group {group}.", "warning")
    return line_count <= TASK_LOG_LINES


def _log_missing_output(context: StepContext, container: str) -> None:
    logged: list[str] = context.progress.setdefault("silent", [])
    if container not in logged:
        logged.append(container)
        context.log(
            f"Container {container} has no awslogs configuration with a stream prefix, so its output is not "
            "shown here"
        )


NORMAL_STOP_CODES = ("", "EssentialContainerExited")


@action
@dataclass(frozen=True)
class WaitForTasks(Action):
    """Check until every task is STOPPED; each container must have exit code 0 (T03)."""

    repeats = True

    @property
    def title(self) -> str:
        return "Wait for the tasks to end"

    def is_done(self, context: StepContext) -> bool:
        return self._record_ended_tasks(context, with_output=True)

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        return self._record_ended_tasks(context, with_output=False)

    def _record_ended_tasks(self, context: StepContext, *, with_output: bool) -> bool:
        """Return whether all tasks have ended; `with_output` waits until their output is complete."""
        ended: dict[str, Any] = context.progress.setdefault("ended", {})
        arns = [arn for arn in context.get_output("taskArns") or [] if arn not in ended]
        tasks = context.ecs.describe_tasks(context.cluster, arns) if arns else []
        _record_missing_tasks(context, arns, tasks)
        _log_progress(context, tasks, len(ended))
        silent_tasks = copy_output(context, tasks)
        for task in tasks:
            if task.last_status == "STOPPED" and (task.arn in silent_tasks or not with_output):
                ended[task.arn] = _record_end(context, task)
        if len(ended) < len(context.get_output("taskArns") or []):
            return False
        context.set_outputs(exitCodes={arn.rsplit("/", 1)[-1]: end["codes"] for arn, end in ended.items()})
        _check_exit_codes(list(ended.values()))
        attempt = get_current_attempt(context)
        if attempt is not None:
            context.save_for_rollback(f"{attempt.key} went well", True)
        _log_success(context, len(ended))
        return True


def _log_success(context: StepContext, count: int) -> None:
    subject = "The ECS task has" if count == 1 else f"All {count} ECS tasks have"
    context.log(f"{subject} finished with exit code 0", "success")


def _record_missing_tasks(context: StepContext, arns: list[str], tasks: list[EcsTask]) -> None:
    """Fail for tasks that AWS no longer lists: it drops tasks an hour after their end."""
    listed = {task.arn for task in tasks}
    for arn in arns:
        if arn in listed:
            clear_observation(context, arn)
        elif is_observed_twice(context, arn, context.now()):
            raise ActionFailed(
                "TASK_UNKNOWN",
                f"AWS no longer has ECS task {arn.rsplit('/', 1)[-1]}, so its result is unknown. Check its "
                f"work and run again if it was not done.",
            )


def _log_progress(context: StepContext, tasks: list[EcsTask], ended: int) -> None:
    """Log one line per change of the tasks' statuses."""
    states: dict[str, int] = {"STOPPED": ended} if ended else {}
    for task in tasks:
        states[task.last_status] = states.get(task.last_status, 0) + 1
    line = ", ".join(f"{count} {status}" for status, count in sorted(states.items()))
    if context.progress.get("states") != line:
        context.progress["states"] = line
        context.log(f"Waiting for the ECS tasks to finish: {line}")
    context.show_counts(
        running=states.get("RUNNING", 0),
        desired=len(tasks) + ended,
        pending=states.get("PENDING", 0),
        ended=states.get("STOPPED", 0),
    )


def _record_end(context: StepContext, task: EcsTask) -> dict[str, Any]:
    """Return the result of an ended task for later checks; a failure is logged at once."""
    codes = {container_state.name: container_state.exit_code for container_state in task.containers}
    failed = _find_failed_container(task)
    if failed is None and task.stop_code in NORMAL_STOP_CODES:
        context.log(f"ECS task {task.id} finished: {_format_exit_codes(codes)}")
        return {"codes": codes}
    container = failed or find_failed_container(task)
    cause = _find_cause(context, task, failed, container)
    lines = log_diagnosis(context, task, container, cause, title="This task failed")
    for line in lines:
        context.log(line, "error" if line else "info")
    return {
        "codes": codes,
        "failure": {
            "code": cause.code,
            "message": f"ECS task {task.id} failed: {cause.message}",
            "container": container.name if container else "",
            "exit_code": container.exit_code if container else None,
            "last_output": list_last_output(context, lines),
            "advice": cause.advice,
        },
    }


def _find_failed_container(task: EcsTask) -> EcsContainer | None:
    """Return the container that failed the task: a bad exit code first, else one that never ran."""
    failed = [container for container in task.containers if container.exit_code]
    unstarted = [container for container in task.containers if container.exit_code is None]
    return next(iter([*failed, *unstarted]), None)


def _find_cause(
    context: StepContext, task: EcsTask, failed: EcsContainer | None, container: EcsContainer | None
) -> FailureCause:
    if failed is None:
        # Every code is 0, but somebody stopped the task: its work may be unfinished.
        reason = task.stopped_reason or "no reason given"
        return FailureCause(
            "TASK_STOPPED",
            f"it was stopped early ({task.stop_code}: {reason}).",
            "Find out who stopped it, and run again if its work was not done.",
        )
    if failed.exit_code and not _is_essential(context, failed.name):
        return FailureCause(
            "CONTAINER_EXITED",
            f"container {failed.name}, which is not essential, exited with code {failed.exit_code}.",
            "Every container of the task must end with code 0: make this one exit with 0 when it is stopped.",
        )
    return find_cause(task, container)


def _is_essential(context: StepContext, name: str) -> bool:
    containers = (context.load_for_rollback("task definition") or {}).get("containerDefinitions", [])
    return all(container.get("essential", True) for container in containers if container.get("name") == name)


def _check_exit_codes(ends: list[Mapping[str, Any]]) -> None:
    failures = [end["failure"] for end in ends if "failure" in end]
    if not failures:
        return
    first = failures[0]
    summary = f"{len(failures)} of {len(ends)} ECS tasks failed. " if len(ends) > 1 else ""
    raise ActionFailed(
        first["code"],
        f"{summary}{first['message']}",
        container=first["container"],
        exit_code=first["exit_code"],
        last_output=first.get("last_output", ()),
        advice=first.get("advice", ""),
    )


def _format_exit_codes(codes: Mapping[str, int | None]) -> str:
    return ", ".join(f"container {name} exited with code {code}" for name, code in codes.items())
