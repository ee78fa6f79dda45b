"""The containers of a task that are real local processes: their environment, their start, output and end."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.clock import CLOCK
from sandbox.ecs import lifecycle, output
from sandbox.ecs.records import Task
from sandbox.ecs.secret_values import secrets_of
from sandbox.images import is_delegate
from sandbox.programs import PROGRAMS, Program

if TYPE_CHECKING:
    from sandbox.ecs.backend import SandboxEcs

DEFAULT_STOP_SECONDS = 30.0
FINISHED = ("DEPROVISIONING", "STOPPED")
# What a task definition must not decide about a process of this machine.
NOT_FROM_OUTSIDE = ("LD_", "DYLD_", "PYTHON")


def start(backend: "SandboxEcs", task: Task) -> str:
    """Start the processes of a task that begins to run; why one cannot start, or nothing."""
    for definition, container in _real(backend, task):
        environment = _environment(backend, task, definition, container["containerArn"])
        try:
            PROGRAMS.start(
                container["containerArn"],
                task_arn=task.task_arn,
                environment=environment,
                home=PROGRAMS.home_of(container["containerArn"]),
            )
        except OSError as exc:
            return f"CannotStartContainerError: {exc}"
    return ""


def _real(backend: "SandboxEcs", task: Task) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Definition and container of each container that really runs."""
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    return [
        (definitions[c["name"]], c)
        for c in task.containers
        if c["name"] in definitions and is_delegate(definitions[c["name"]]["image"])
    ]


def _environment(
    backend: "SandboxEcs", task: Task, definition: Mapping[str, Any], container_arn: str
) -> dict[str, str]:
    number = container_arn.rpartition("/")[2]
    home = PROGRAMS.home_of(container_arn)
    return {
        **_of_the_machine(task, definition, number),
        **_given(backend, task, definition),
        **_of_the_sandbox(backend, number, home),
    }


def _of_the_machine(task: Task, definition: Mapping[str, Any], number: str) -> dict[str, str]:
    address = f"ip-{task.ip.replace('.', '-')}.ec2.internal" if task.ip else number[:12]
    return {
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "HOSTNAME": definition.get("hostname") or address,
        "AWS_EXECUTION_ENV": f"AWS_ECS_{task.launch_type or 'FARGATE'}",
    }


def _given(backend: "SandboxEcs", task: Task, definition: Mapping[str, Any]) -> dict[str, str]:
    """What the task definition, its secrets and the overrides of RunTask say."""
    given = {e["name"]: e.get("value") or "" for e in definition.get("environment") or []}
    given |= secrets_of(backend.account_id, backend.region_name, definition)
    for override in task.overrides.get("containerOverrides") or []:
        if override.get("name") == definition["name"]:
            given |= {e["name"]: e.get("value") or "" for e in override.get("environment") or []}
    return {name: value for name, value in given.items() if _is_allowed(name, value)}


def _is_allowed(name: str, value: str) -> bool:
    is_possible = name and "=" not in name and "\0" not in name + value
    return bool(is_possible) and not name.upper().startswith(NOT_FROM_OUTSIDE)


def _of_the_sandbox(backend: "SandboxEcs", number: str, home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home),
        "AWS_REGION": backend.region_name,
        "AWS_DEFAULT_REGION": backend.region_name,
        "AWS_ENDPOINT_URL": PROGRAMS.url,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{PROGRAMS.url}/sandbox/containers/{number}/credentials",
        "ECS_CONTAINER_METADATA_URI_V4": f"{PROGRAMS.url}/sandbox/containers/{number}",
        "SLIPWAY_DELEGATE_HOME": str(home),
        # Many delegates share this machine's ports.
        "SLIPWAY_DELEGATE_PORT": "0",
    }


def terminate(backend: "SandboxEcs", task: Task) -> bool:
    """Ask the processes of a task to end; False if it has none."""
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    names = {c["containerArn"]: c["name"] for c in task.containers}
    programs = PROGRAMS.of_task(task.task_arn)
    for program in programs:
        definition = definitions.get(names.get(program.container_arn, ""), {})
        # Real seconds: a real process knows no others.
        program.terminate(float(definition.get("stopTimeout") or DEFAULT_STOP_SECONDS))
    return bool(programs)


def watch(backend: "SandboxEcs") -> bool:
    """Pass on what processes print, notice those that ended, kill the slow; True if anything changed."""
    changed = False
    for program in list(PROGRAMS.running.values()):
        task = _task_of(backend, program)
        if task is not None:
            changed |= _watch(backend, task, program)
    return changed


def _task_of(backend: "SandboxEcs", program: Program) -> Task | None:
    region, account_id = program.task_arn.split(":")[3:5]
    if (region, account_id) != (backend.region_name, backend.account_id):
        return None
    cluster = program.task_arn.split("/")[1]
    return backend.tasks.get(cluster, {}).get(program.task_arn)


def _watch(backend: "SandboxEcs", task: Task, program: Program) -> bool:
    code = program.exit_code()
    container = next(c for c in task.containers if c["containerArn"] == program.container_arn)
    changed = _pass_on(backend, task, program, container["name"])
    if code is None:
        if task.last_status in FINISHED or program.is_overdue:
            program.kill()
        return changed
    PROGRAMS.forget(program)
    _note_end(backend, task, container, code)
    return True


def _pass_on(backend: "SandboxEcs", task: Task, program: Program, name: str) -> bool:
    lines = program.take_lines()
    definition = next((d for d in backend.definition_of(task).containers if d["name"] == name), None)
    if lines and definition is not None:
        output.print_real(backend.account_id, backend.region_name, task, definition, lines)
    return bool(lines)


def _note_end(backend: "SandboxEcs", task: Task, container: dict[str, Any], code: int) -> None:
    container["exitCode"] = code
    container["lastStatus"] = "STOPPED"
    task.version += 1
    definitions = {d["name"]: d for d in backend.definition_of(task).containers}
    if task.is_live and definitions[container["name"]].get("essential", True):
        task.execution_stopped_at = CLOCK.now()
        reason = "Essential container in task exited"
        lifecycle.stop(backend, task, code=lifecycle.EXITED, reason=reason)
    elif task.last_status == "STOPPING" and not PROGRAMS.of_task(task.task_arn):
        task.next_at, task.look_at = CLOCK.elapsed, 0.0


def resume(backend: "SandboxEcs") -> None:
    """After a restart of the sandbox: start the processes anew that ended with it."""
    for task in backend.unstopped_tasks():
        if not _real(backend, task) or PROGRAMS.of_task(task.task_arn):
            continue
        if task.is_running and task.is_live:
            start(backend, task)
        elif task.last_status == "STOPPING":
            task.next_at, task.look_at = CLOCK.elapsed, 0.0
