"""Container output in CloudWatch Logs, as configured for awslogs."""

import math
from collections.abc import Mapping
from typing import Any

from moto.logs.models import LogGroup, LogStream, logs_backends

from sandbox.clock import CLOCK
from sandbox.images import DEFAULT_BEHAVIOR, get_container_behavior, is_delegate
from sandbox.services.ecs.records import SandboxTask
from sandbox.snapshot_rules import SNAPSHOT_RULES

MAX_LINES = 500
MAX_STREAMS = 1000
IDLE_LINE_INTERVAL = 60.0
NO_LOG_GROUP = (
    "ResourceInitializationError: failed to validate logger args: create stream has been retried 1 times:"
    " failed to create Cloudwatch log stream: ResourceNotFoundException: The specified log group does not"
    " exist. : exit status 1"
)

NO_LOG_GROUP_ON_INSTANCE = (
    "CannotStartContainerError: Error response from daemon: failed to create task for container: failed to"
    " initialize logging driver: failed to create Cloudwatch log stream: ResourceNotFoundException: The"
    " specified log group does not exist."
)


def _get_log_options(container: Mapping[str, Any]) -> Mapping[str, str] | None:
    log = container.get("logConfiguration") or {}
    return log.get("options") or {} if log.get("logDriver") == "awslogs" else None


def create_streams(
    account_id: str, region: str, task: SandboxTask, containers: list[dict[str, Any]]
) -> str | None:
    """Create the log streams of a task's containers; return the reason if the task cannot start."""
    for container in containers:
        options = _get_log_options(container)
        if options is None:
            continue
        logs = logs_backends[account_id][options.get("awslogs-region", region)]
        name = options["awslogs-group"]
        if name not in logs.groups:
            if options.get("awslogs-create-group") != "true" and not SNAPSHOT_RULES.is_active:
                return NO_LOG_GROUP_ON_INSTANCE if task.launch_type == "EC2" else NO_LOG_GROUP
            logs.create_log_group(name, {})
        stream = _build_stream_name(options, container, task)
        if stream not in logs.groups[name].streams:
            _delete_oldest_streams(logs.groups[name])
            logs.groups[name].create_log_stream(stream)
    return None


def _delete_oldest_streams(group: LogGroup) -> None:
    # A container that crashes for days would fill the memory with its streams.
    for name in list(group.streams)[: max(len(group.streams) - MAX_STREAMS + 1, 0)]:
        del group.streams[name]


def _build_stream_name(options: Mapping[str, str], container: Mapping[str, Any], task: SandboxTask) -> str:
    prefix = options.get("awslogs-stream-prefix")
    return f"{prefix}/{container['name']}/{task.id}" if prefix else f"{task.id}-{container['name']}"


def write_due_lines(
    account_id: str, region: str, task: SandboxTask, containers: list[dict[str, Any]]
) -> bool:
    """Write the output that is due, and return whether there was any."""
    if task.running_since is None:
        return False
    age = CLOCK.elapsed - task.running_since
    due = int(age) + 1
    if due <= task.printed:
        return False
    printed = False
    for container in containers:
        for second in range(task.printed, due):
            if (line := _get_line(container, second)) is not None:
                printed |= _write_line(account_id, region, task, container, line)
    task.printed = due
    return printed


def get_next_line_time(task: SandboxTask, containers: list[dict[str, Any]]) -> float:
    """Return the moment of the next line of any container of a running task."""
    if task.running_since is None:
        return math.inf
    return task.running_since + min((_get_next_second(c, task.printed) for c in containers), default=math.inf)


def _get_next_second(container: Mapping[str, Any], printed: int) -> float:
    behavior = get_container_behavior(container)
    if _get_log_options(container) is None or is_delegate(container["image"]):
        return math.inf
    if printed < len(behavior.lines):
        return float(printed)
    return (
        math.ceil(printed / IDLE_LINE_INTERVAL) * IDLE_LINE_INTERVAL
        if behavior is DEFAULT_BEHAVIOR
        else math.inf
    )


def _get_line(container: Mapping[str, Any], second: int) -> str | None:
    if is_delegate(container["image"]):
        return None
    behavior = get_container_behavior(container)
    if second < len(behavior.lines):
        ports = container.get("portMappings") or [{}]
        return behavior.lines[second].format(port=ports[0].get("containerPort", 8080))
    if behavior is DEFAULT_BEHAVIOR and second % IDLE_LINE_INTERVAL == 0:
        return f"served {second // 60 * 7 % 50 + 3} requests in the last minute"
    return None


def _write_line(
    account_id: str, region: str, task: SandboxTask, container: Mapping[str, Any], line: str
) -> bool:
    now = int(CLOCK.now().timestamp() * 1000)
    return write_process_lines(account_id, region, task, container, [(now, line)])


def write_process_lines(
    account_id: str,
    region: str,
    task: SandboxTask,
    container: Mapping[str, Any],
    lines: list[tuple[int, str]],
) -> bool:
    """Write lines, each with its time in milliseconds; return False if the container has no stream."""
    options = _get_log_options(container)
    if options is None:
        return False
    stream = _find_stream(account_id, region, options, _build_stream_name(options, container, task))
    if stream is None:
        return False
    stream.put_log_events([{"timestamp": at, "message": line} for at, line in lines])
    del stream.events[:-MAX_LINES]
    return True


def _find_stream(account_id: str, region: str, options: Mapping[str, str], name: str) -> LogStream | None:
    groups = logs_backends[account_id][options.get("awslogs-region", region)].groups
    group: LogGroup | None = groups.get(options["awslogs-group"])
    return group.streams.get(name) if group else None
