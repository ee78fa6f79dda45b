"""Diagnosis of failed ECS tasks: evidence, stop reasons, most likely cause (P02, N02)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from aws.apis.ecs_types import EcsContainer, EcsDeployment, EcsService, EcsTask, parse_timestamp
from aws.errors import AwsError
from aws.stop_reasons import FailureCause, find_cause, find_failed_container, has_failed
from guards.text import sanitize_text, strip_escape_sequences
from steps.actions.base import ActionFailed
from steps.actions.context import StepContext

LOG_LINES = 10
_OUTPUT_PREFIX = "  | "
# The banner of a failure quotes the last of these lines.
QUOTED_LINES = 5
QUOTED_CHARACTERS = 300
HEALTHY_AFTER = timedelta(seconds=40)
# How far the clocks of two parts of AWS may differ.
CLOCK_SKEW = timedelta(seconds=5)


@dataclass(frozen=True)
class Diagnosis:
    """Failed tasks of one deployment, with the cause of the first failure."""

    cause: FailureCause
    lines: tuple[str, ...]
    failures: int
    any_healthy: bool
    lived: float
    """Lifetime of the last failed task in seconds."""
    container: str
    exit_code: int | None
    last_output: tuple[str, ...] = ()

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
            last_output=self.last_output,
            advice=self.cause.advice,
        )

    def as_notes(self) -> dict[str, Any]:
        """Return the first failure for later checks, as JSON values."""
        return {
            "code": self.cause.code,
            "message": self.cause.message,
            "container": self.container,
            "exit_code": self.exit_code,
            "last_output": list(self.last_output),
            "advice": self.cause.advice,
        }


def diagnose_deployment(
    context: StepContext, service: EcsService, deployment_id: str, *, enough: int = 3
) -> Diagnosis | None:
    """Explain the stopped tasks of this deployment; None while none has failed.

    Healthy tasks are read only after `enough` failures; 0 means never. Raises `AwsError` if AWS refuses to
    list the tasks.
    """
    arns = context.ecs.list_tasks(context.cluster, service=service.name, desired_status="STOPPED")
    stopped = context.ecs.describe_tasks(context.cluster, arns)
    deployment = service.find_deployment(deployment_id)
    tasks = [task for task in stopped if is_of_deployment(task, deployment_id, deployment)]
    _log_manual_stops(context, tasks)
    failed = sorted((task for task in tasks if has_failed(task)), key=_get_stop_time)
    if not failed:
        return None
    first = failed[0]
    container = find_failed_container(first)
    cause = find_cause(first, container)
    is_new = not context.progress.get("diagnosed")
    lines = log_diagnosis(context, first, container, cause) if is_new else []
    known_output = context.progress.get("first failure", {}).get("last_output", ())
    diagnosis = Diagnosis(
        cause=cause,
        lines=tuple(lines),
        failures=len(failed),
        any_healthy=0 < enough <= len(failed)
        and _has_healthy_task_started(context, service, deployment_id, failed[-1]),
        lived=_get_lifetime(failed[-1]),
        container=container.name if container else "",
        exit_code=container.exit_code if container else None,
        last_output=tuple(list_last_output(context, lines) if is_new else known_output),
    )
    context.progress["first failure"] = diagnosis.as_notes()
    return diagnosis


def is_of_deployment(task: EcsTask, deployment_id: str, deployment: EcsDeployment | None) -> bool:
    """Return whether a deployment started a task: by its id, its task definition and its time."""
    if task.started_by != deployment_id:
        return False
    if deployment is None:
        return True
    deployment_start = deployment.created_at
    is_later = (
        deployment_start is None
        or task.created_at is None
        or task.created_at >= deployment_start - CLOCK_SKEW
    )
    return is_later and task.task_definition == deployment.task_definition


def _log_manual_stops(context: StepContext, tasks: list[EcsTask]) -> None:
    """Add a note for each task of this deployment that a person stopped, once, with the reason."""
    logged = context.progress.setdefault("stopped by others", [])
    for task in tasks:
        if task.stop_code == "UserInitiated" and task.id not in logged:
            logged.append(task.id)
            reason = task.stopped_reason or "no reason given"
            context.add_note(f"Somebody stopped ECS task {task.id} of this deployment: {reason}")


def _get_lifetime(task: EcsTask) -> float:
    ended = (
        parse_timestamp(task.raw.get("executionStoppedAt") or task.raw.get("stoppingAt")) or task.stopped_at
    )
    if task.started_at is None or ended is None:
        return 0.0
    return (ended - task.started_at).total_seconds()


def _get_stop_time(task: EcsTask) -> str:
    return str(task.raw.get("stoppingAt") or task.raw.get("stoppedAt") or task.raw.get("createdAt") or "")


def _has_healthy_task_started(
    context: StepContext, service: EcsService, deployment_id: str, latest: EcsTask
) -> bool:
    """Return whether a task of ours has outlived the failing ones, by AWS's own clock."""
    arns = context.ecs.list_tasks(context.cluster, service=service.name, desired_status="RUNNING")
    running = context.ecs.describe_tasks(context.cluster, arns)
    for task in running:
        if task.started_by != deployment_id or task.started_at is None:
            continue
        is_old = latest.stopped_at is not None and latest.stopped_at - task.started_at >= HEALTHY_AFTER
        if task.health == "HEALTHY" or is_old:
            return True
    return False


def log_diagnosis(
    context: StepContext,
    task: EcsTask,
    container: EcsContainer | None,
    cause: FailureCause,
    *,
    title: str = "First failure of this deployment",
) -> list[str]:
    """Return the log lines that explain a failed task: stop reason, containers, last output, cause."""
    lines = ["", f"{title}: ECS task {task.id} stopped"]
    lines.append(f"  {task.stop_code or 'Stopped'}: {task.stopped_reason or 'AWS gave no reason'}")
    for part in task.containers:
        if part.exit_code is not None or part.reason:
            code = "never ran" if part.exit_code is None else f"exited with code {part.exit_code}"
            lines.append(f"  Container {part.name} {code}" + (f": {part.reason}" if part.reason else ""))
    if container is not None:
        lines += _log_last_output(context, task, container)
    lines += [f"Cause: {cause.message}", f"What to do: {cause.advice}", ""]
    return lines


def _log_last_output(context: StepContext, task: EcsTask, container: EcsContainer) -> list[str]:
    location = find_log_stream(context, task, container)
    if location is None:
        return [f"  Container {container.name} has no awslogs configuration, so its output is not available"]
    group, stream = location
    try:
        events = context.logs.tail(group, stream, LOG_LINES)
    except AwsError as error:
        return [f"  Its log could not be read ({group}): {error.display_message}"]
    if not events:
        return [f"  No lines in its log ({group}, {stream})"]
    return [
        f"  Last lines of its log ({group}, {stream}):",
        *(f"{_OUTPUT_PREFIX}{event.message}" for event in events),
    ]


def list_last_output(context: StepContext, lines: Sequence[str]) -> list[str]:
    """Return the container's last lines in a diagnosis: redacted, without colors, long ones cut."""
    output = [
        sanitize_text(strip_escape_sequences(line.removeprefix(_OUTPUT_PREFIX)))
        for line in lines
        if line.startswith(_OUTPUT_PREFIX)
    ]
    # Redaction comes before every cut, which could leave half of a secret.
    redacted = [line.rstrip() for line in context.redact(output)]
    return [_shorten(line) for line in redacted if line][-QUOTED_LINES:]


def _shorten(line: str) -> str:
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[: QUOTED_CHARACTERS - 1]}…"


def find_log_stream(context: StepContext, task: EcsTask, container: EcsContainer) -> tuple[str, str] | None:
    """Return the log group and stream of a container; None unless its task definition has awslogs options."""
    definition = context.load_for_rollback("task definition") or {}
    for container_definition in definition.get("containerDefinitions", []):
        log = container_definition.get("logConfiguration") or {}
        options = log.get("options") or {}
        if container_definition.get("name") == container.name and log.get("logDriver") == "awslogs":
            if "awslogs-group" not in options or "awslogs-stream-prefix" not in options:
                return None
            return options["awslogs-group"], f"{options['awslogs-stream-prefix']}/{container.name}/{task.id}"
    return None
