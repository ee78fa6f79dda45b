"""Starts of an ECS service's tasks, and what kept them from running."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsTask, ServiceEvent
from aws.caller import Caller
from aws.errors import NotFound
from aws.stop_reasons import find_failed_container, find_reason_cause, has_failed
from guards.text import sanitize_text, strip_escape_sequences

STOPPED_TASKS = 50
SHOWN_FAILURES = 5
REASON_CHARACTERS = 600


@dataclass(frozen=True)
class StartFailure:
    """Why ECS stopped a task, or could not start one; `at` is an ISO time, or empty."""

    at: str
    source: str
    reason: str


@dataclass(frozen=True)
class ServiceStart:
    """Number of a service's tasks, and their failures, newest first; `exists` if ECS has the service."""

    exists: bool
    desired: int
    running: int
    failures: tuple[StartFailure, ...]


def build_start_subject(cluster: str, service: str, family: str) -> str:
    """Return the subject of a lookup of a service whose tasks are of a family."""
    return f"{cluster}/{service}/{family}"


def fetch_service_starts(caller: Caller, subject: str) -> list[ServiceStart]:
    """Return the start of a service; none if the cluster does not exist. Raises `AwsError`."""
    cluster, name, family = subject.split("/")
    ecs = EcsClient(caller)
    try:
        service = ecs.describe_service(cluster, name)
        # A rollback deletes the service of a first deployment, but its tasks stay listed.
        arns = ecs.list_stopped_tasks(cluster, family)[:STOPPED_TASKS]
    except NotFound:
        return []
    failed = [task for task in ecs.describe_tasks(cluster, arns) if has_failed(task)] if arns else []
    events = _list_failure_events(service.events) if service else ()
    newest = sorted([*map(_describe_task, failed), *events], key=lambda failure: failure.at, reverse=True)
    failures = tuple(newest[:SHOWN_FAILURES])
    if service is None or service.status == "INACTIVE":
        return [ServiceStart(exists=False, desired=0, running=0, failures=failures)]
    return [ServiceStart(exists=True, desired=service.desired, running=service.running, failures=failures)]


def _describe_task(task: EcsTask) -> StartFailure:
    parts, container = [task.stopped_reason], find_failed_container(task)
    if container is not None and container.exit_code is not None:
        parts.append(f"Container {container.name} exited with code {container.exit_code}")
    if container is not None:
        parts.append(container.reason)
    reason = ". ".join(dict.fromkeys(part.rstrip(".") for part in parts if part))
    return _build_failure(task.stopped_at or task.created_at, "task", reason)


def _list_failure_events(events: tuple[ServiceEvent, ...]) -> Iterator[StartFailure]:
    """Return the events with a known cause since the last steady state; most others tell of success."""
    for event in events:
        if "has reached a steady state" in event.message:
            return
        if find_reason_cause(event.message, container=""):
            yield _build_failure(event.at, "event", event.message)


def _build_failure(at: datetime | None, source: str, reason: str) -> StartFailure:
    text = sanitize_text(strip_escape_sequences(reason[: 2 * REASON_CHARACTERS]))
    cut = text if len(text) <= REASON_CHARACTERS else f"{text[: REASON_CHARACTERS - 1]}…"
    return StartFailure(at.astimezone(UTC).isoformat() if at else "", source, cut)
