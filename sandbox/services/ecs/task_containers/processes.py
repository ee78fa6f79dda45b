"""Containers that run as local processes: environment, start, termination, restart."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.images import is_delegate
from sandbox.programs import CONTAINER_PROCESSES
from sandbox.services.ecs.records import SandboxTask
from sandbox.services.ecs.task_containers.secret_values import get_secret_values

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

DEFAULT_STOP_SECONDS = 30.0
# Variables of a process on this machine that a task definition must not set.
BLOCKED_PREFIXES = ("LD_", "DYLD_", "PYTHON")


def start_containers(backend: "SandboxEcs", task: SandboxTask) -> str:
    """Start the processes of a task, and return the reason of a failure, or an empty text."""
    for definition, container in _list_process_containers(backend, task):
        environment = _build_environment(backend, task, definition, container["containerArn"])
        try:
            CONTAINER_PROCESSES.start(
                container["containerArn"],
                task_arn=task.task_arn,
                environment=environment,
                home=CONTAINER_PROCESSES.home_of(container["containerArn"]),
            )
        except OSError as exc:
            return f"CannotStartContainerError: {exc}"
    return ""


def _list_process_containers(
    backend: "SandboxEcs", task: SandboxTask
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return definition and container of each container with a real process."""
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    return [
        (definitions[c["name"]], c)
        for c in task.containers
        if c["name"] in definitions and is_delegate(definitions[c["name"]]["image"])
    ]


def _build_environment(
    backend: "SandboxEcs", task: SandboxTask, definition: Mapping[str, Any], container_arn: str
) -> dict[str, str]:
    number = container_arn.rpartition("/")[2]
    home = CONTAINER_PROCESSES.home_of(container_arn)
    return {
        **_build_base_variables(task, definition, number),
        **_build_defined_variables(backend, task, definition),
        **_build_sandbox_variables(backend, number, home),
    }


def _build_base_variables(task: SandboxTask, definition: Mapping[str, Any], number: str) -> dict[str, str]:
    address = f"ip-{task.ip.replace('.', '-')}.ec2.internal" if task.ip else number[:12]
    return {
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        # A container's log is read by people here.
        "LOG_FORMAT": "text",
        "HOSTNAME": definition.get("hostname") or address,
        "AWS_EXECUTION_ENV": f"AWS_ECS_{task.launch_type or 'FARGATE'}",
    }


def _build_defined_variables(
    backend: "SandboxEcs", task: SandboxTask, definition: Mapping[str, Any]
) -> dict[str, str]:
    """Return the variables of the task definition, its secrets and the overrides of RunTask."""
    variables = {e["name"]: e.get("value") or "" for e in definition.get("environment") or []}
    variables |= get_secret_values(backend.account_id, backend.region_name, definition)
    for override in task.overrides.get("containerOverrides") or []:
        if override.get("name") == definition["name"]:
            variables |= {e["name"]: e.get("value") or "" for e in override.get("environment") or []}
    return {name: value for name, value in variables.items() if _is_allowed(name, value)}


def _is_allowed(name: str, value: str) -> bool:
    is_possible = name and "=" not in name and "\0" not in name + value
    return bool(is_possible) and not name.upper().startswith(BLOCKED_PREFIXES)


def _build_sandbox_variables(backend: "SandboxEcs", number: str, home: Path) -> dict[str, str]:
    metadata_url = f"{CONTAINER_PROCESSES.url}/sandbox/containers/{number}"
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "AWS_REGION": backend.region_name,
        "AWS_DEFAULT_REGION": backend.region_name,
        "AWS_ENDPOINT_URL": CONTAINER_PROCESSES.url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{metadata_url}/credentials",
        "ECS_CONTAINER_METADATA_URI_V4": metadata_url,
        "SLIPWAY_DELEGATE_HOME": str(home),
        # Many delegates share this machine's ports.
        "SLIPWAY_DELEGATE_PORT": "0",
    }


def terminate_containers(backend: "SandboxEcs", task: SandboxTask) -> bool:
    """Terminate the processes of a task; return False if it has none."""
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    names = {c["containerArn"]: c["name"] for c in task.containers}
    programs = CONTAINER_PROCESSES.of_task(task.task_arn)
    for program in programs:
        definition = definitions.get(names.get(program.container_arn, ""), {})
        # Real seconds, because the process is real.
        program.terminate(float(definition.get("stopTimeout") or DEFAULT_STOP_SECONDS))
    return bool(programs)


def resume_processes(backend: "SandboxEcs") -> None:
    """Restart the processes after a restart of the sandbox."""
    for task in backend.unstopped_tasks():
        if not _list_process_containers(backend, task) or CONTAINER_PROCESSES.of_task(task.task_arn):
            continue
        if task.is_running and task.is_live:
            start_containers(backend, task)
        elif task.last_status == "STOPPING":
            task.next_at, task.due_at = CLOCK.elapsed, 0.0
