"""Why the first task of a deployment failed: evidence from AWS and what to do about it (P02, N02)."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from aws.errors import AwsError
from aws.types import Container, Deployment, EcsService, EcsTask, moment
from steps.actions.base import ActionFailed, Rollout
from steps.actions.causes import Cause, cause_of

LOG_LINES = 10
HEALTHY_AFTER = timedelta(seconds=40)
# How far the clocks of two parts of AWS may differ.
CLOCKS_APART = timedelta(seconds=5)


@dataclass(frozen=True)
class Diagnosis:
    """The failed tasks of one deployment, the first of them explained."""

    cause: Cause
    lines: tuple[str, ...]
    failures: int
    any_healthy: bool
    lived: float
    """For how many seconds the task ran that failed last."""
    container: str
    exit_code: int | None

    @property
    def fatal(self) -> bool:
        return self.cause.fatal

    def failure(self, outcome: str, before: str = "") -> ActionFailed:
        return ActionFailed(
            self.cause.code,
            f"{before}{self.cause.message}",
            outcome=outcome,
            container=self.container,
            exit_code=self.exit_code,
        )

    def as_notes(self) -> dict[str, Any]:
        """What later looks need of the first failure, fit for JSON."""
        return {
            "code": self.cause.code,
            "message": self.cause.message,
            "container": self.container,
            "exit_code": self.exit_code,
        }


def diagnose(
    rollout: Rollout, service: EcsService, deployment_id: str, *, enough: int = 3
) -> Diagnosis | None:
    """Look at the stopped tasks of this deployment; None while none has failed.

    Whether any task is healthy is asked once `enough` have failed; 0 is never.
    Raises `AwsError` where AWS refuses to show the tasks.
    """
    arns = rollout.ecs.list_tasks(rollout.cluster, service=service.name, desired_status="STOPPED")
    stopped = rollout.ecs.describe_tasks(rollout.cluster, arns[:100]) if arns else []
    ours = service.deployment(deployment_id)
    mine = [task for task in stopped if is_of_deployment(task, deployment_id, ours)]
    _tell_stopped_by_others(rollout, mine)
    failed = sorted((task for task in mine if _has_failed(task)), key=_moment)
    if not failed:
        return None
    first = failed[0]
    container = culprit(first)
    cause = cause_of(first, container)
    diagnosis = Diagnosis(
        cause=cause,
        lines=tuple(tell(rollout, first, container, cause)) if not rollout.progress.get("diagnosed") else (),
        failures=len(failed),
        any_healthy=0 < enough <= len(failed) and _any_healthy(rollout, service, deployment_id, failed[-1]),
        lived=_lived(failed[-1]),
        container=container.name if container else "",
        exit_code=container.exit_code if container else None,
    )
    rollout.progress["first failure"] = diagnosis.as_notes()
    return diagnosis


def is_of_deployment(task: EcsTask, deployment_id: str, deployment: Deployment | None) -> bool:
    """Whether a deployment started a task: its id, its task definition, and not before it began."""
    if task.started_by != deployment_id:
        return False
    if deployment is None:
        return True
    begun = deployment.created_at
    is_later = begun is None or task.created_at is None or task.created_at >= begun - CLOCKS_APART
    return is_later and task.task_definition == deployment.task_definition


def _tell_stopped_by_others(rollout: Rollout, tasks: list[EcsTask]) -> None:
    """Name each task of this deployment that somebody stopped by hand, once, with the reason given."""
    told = rollout.progress.setdefault("stopped by others", [])
    for task in tasks:
        if task.stop_code == "UserInitiated" and task.id not in told:
            told.append(task.id)
            why = task.stopped_reason or "no reason given"
            rollout.note(f"Somebody stopped ECS task {task.id} of this deployment: {why}")


def _has_failed(task: EcsTask) -> bool:
    """A task that the scheduler stopped for scaling or replacing did not fail."""
    if task.stop_code in ("ServiceSchedulerInitiated", "UserInitiated"):
        return "health checks" in task.stopped_reason
    return task.last_status == "STOPPED" or bool(task.stop_code)


def _lived(task: EcsTask) -> float:
    ended = moment(task.raw.get("executionStoppedAt") or task.raw.get("stoppingAt")) or task.stopped_at
    if task.started_at is None or ended is None:
        return 0.0
    return (ended - task.started_at).total_seconds()


def _moment(task: EcsTask) -> str:
    return str(task.raw.get("stoppingAt") or task.raw.get("stoppedAt") or task.raw.get("createdAt") or "")


def culprit(task: EcsTask) -> Container | None:
    """The container that failed: first what AWS says of memory, then a bad exit code, then a reason."""
    for container in task.containers:
        if "OutOfMemory" in container.reason:
            return container
    for container in task.containers:
        if container.exit_code:
            return container
    for container in task.containers:
        if container.reason:
            return container
    return task.containers[0] if task.containers else None


def _any_healthy(rollout: Rollout, service: EcsService, deployment_id: str, latest: EcsTask) -> bool:
    """Whether some task of ours has been running for longer than failing ones live, by AWS's own clock."""
    arns = rollout.ecs.list_tasks(rollout.cluster, service=service.name, desired_status="RUNNING")
    running = rollout.ecs.describe_tasks(rollout.cluster, arns[:100]) if arns else []
    for task in running:
        if task.started_by != deployment_id or task.started_at is None:
            continue
        old = latest.stopped_at is not None and latest.stopped_at - task.started_at >= HEALTHY_AFTER
        if task.health == "HEALTHY" or old:
            return True
    return False


def tell(
    rollout: Rollout,
    task: EcsTask,
    container: Container | None,
    cause: Cause,
    *,
    title: str = "First failure of this deployment",
) -> list[str]:
    """The lines that explain a failed task: why it stopped, each container's end, its last words, a cause."""
    lines = ["", f"{title}: ECS task {task.id} stopped"]
    lines.append(f"  {task.stop_code or 'Stopped'}: {task.stopped_reason or 'AWS gave no reason'}")
    for part in task.containers:
        if part.exit_code is not None or part.reason:
            code = "never ran" if part.exit_code is None else f"exited with code {part.exit_code}"
            lines.append(f"  Container {part.name} {code}" + (f": {part.reason}" if part.reason else ""))
    if container is not None:
        lines += _last_words(rollout, task, container)
    lines += [f"Cause: {cause.message}", f"What to do: {cause.advice}", ""]
    return lines


def _last_words(rollout: Rollout, task: EcsTask, container: Container) -> list[str]:
    place = log_place(rollout, task, container)
    if place is None:
        return [
            f"  Container {container.name} has no awslogs configuration, so its output is not to be had here"
        ]
    group, stream = place
    try:
        said = rollout.logs.tail(group, stream, LOG_LINES)
    except AwsError as error:
        return [f"  Its log could not be read ({group}): {error.sentence}"]
    if not said:
        return [f"  It wrote nothing to its log ({group}, {stream})"]
    return [f"  Last lines of its log ({group}, {stream}):", *(f"  | {event.message}" for event in said)]


def log_place(rollout: Rollout, task: EcsTask, container: Container) -> tuple[str, str] | None:
    """The log group and stream of a container, if its task definition says where it writes."""
    definition = rollout.recall("task definition") or {}
    for wanted in definition.get("containerDefinitions", []):
        log = wanted.get("logConfiguration") or {}
        options = log.get("options") or {}
        if wanted.get("name") == container.name and log.get("logDriver") == "awslogs":
            if "awslogs-group" not in options or "awslogs-stream-prefix" not in options:
                return None
            return options["awslogs-group"], f"{options['awslogs-stream-prefix']}/{container.name}/{task.id}"
    return None
