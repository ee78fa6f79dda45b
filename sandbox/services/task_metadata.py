"""Task metadata endpoint (version 4) and role credentials of containers."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from moto.ecs.models import ecs_backends
from moto.sts.models import sts_backends

from sandbox.programs import CONTAINER_PROCESSES, ContainerProcess
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.records import SandboxTask, SandboxTaskDefinition

METADATA_PREFIX = "/sandbox/containers/"
CREDENTIALS_LIFETIME = timedelta(hours=6)
CPU_UNITS = 1024


def get_metadata(path: str) -> dict[str, Any] | None:
    """Return the document at `{container}`, `{container}/task` or `{container}/credentials`, or None.

    Source: ECS developer guide, "Task metadata endpoint version 4" and "Task IAM role".
    """
    number, _, part = path.removeprefix(METADATA_PREFIX).strip("/").partition("/")
    program = next((p for arn, p in CONTAINER_PROCESSES.running.items() if arn.endswith(f"/{number}")), None)
    owner = _find_task(program) if program is not None and number else None
    if program is None or owner is None:
        return None
    backend, task = owner
    if part == "credentials":
        return _build_credentials(backend, task, program)
    if part == "task":
        return _build_task(backend, task)
    container = next(c for c in task.containers if c["containerArn"] == program.container_arn)
    return _build_container(task, backend.definition_of(task), container) if not part else None


def _find_task(program: ContainerProcess) -> tuple[SandboxEcs, SandboxTask] | None:
    region, account_id = program.task_arn.split(":")[3:5]
    backend = cast("SandboxEcs", ecs_backends[account_id][region])
    task = backend.tasks.get(program.task_arn.split("/")[1], {}).get(program.task_arn)
    return (backend, task) if task is not None else None


def _build_task(backend: SandboxEcs, task: SandboxTask) -> dict[str, Any]:
    definition = backend.definition_of(task)
    service = backend.service_of(task)
    document = {
        "Cluster": task.cluster_arn,
        "TaskARN": task.task_arn,
        "Family": definition.family,
        "Revision": str(definition.revision),
        "DesiredStatus": task.desired_status,
        "KnownStatus": task.last_status,
        "Limits": _build_limits(task.cpu, task.memory),
        "PullStartedAt": _format_date(task.pull_started_at),
        "PullStoppedAt": _format_date(task.pull_stopped_at),
        "AvailabilityZone": task.availability_zone,
        "LaunchType": task.launch_type or "FARGATE",
        "Containers": [_build_container(task, definition, c) for c in task.containers],
    }
    if service is not None:
        document["ServiceName"] = service.service_name
    return document


def _build_container(
    task: SandboxTask, definition: SandboxTaskDefinition, container: dict[str, Any]
) -> dict[str, Any]:
    described = next(d for d in definition.containers if d["name"] == container["name"])
    log = described.get("logConfiguration") or {}
    labels = "com.amazonaws.ecs"
    return {
        "DockerId": container["runtimeId"],
        "Name": container["name"],
        "DockerName": container["name"],
        "Image": container["image"],
        "Labels": {
            f"{labels}.cluster": task.cluster_arn,
            f"{labels}.container-name": container["name"],
            f"{labels}.task-arn": task.task_arn,
            f"{labels}.task-definition-family": definition.family,
            f"{labels}.task-definition-version": str(definition.revision),
        },
        "DesiredStatus": task.desired_status,
        "KnownStatus": container["lastStatus"],
        "Limits": {"CPU": described.get("cpu", 0), "Memory": described.get("memory") or 0},
        "CreatedAt": _format_date(task.created_at),
        "StartedAt": _format_date(task.started_at),
        "Type": "NORMAL",
        "LogDriver": log.get("logDriver"),
        "LogOptions": log.get("options") or {},
        "ContainerARN": container["containerArn"],
        "Networks": [{"NetworkMode": definition.network_mode, "IPv4Addresses": [task.ip] if task.ip else []}],
    }


def _build_limits(cpu: str | None, memory: str | None) -> dict[str, float]:
    limits: dict[str, float] = {"CPU": int(cpu) / CPU_UNITS} if cpu else {}
    return {**limits, "Memory": int(memory)} if memory else limits


def _format_date(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _build_credentials(backend: SandboxEcs, task: SandboxTask, program: ContainerProcess) -> dict[str, str]:
    """Return the keys of the task's role, or of the instance's role without one."""
    role = backend.definition_of(task).document.get("taskRoleArn") or (
        f"arn:aws:iam::{backend.account_id}:role/ecsInstanceRole"
    )
    if program.credentials is None:
        program.credentials = sts_backends[backend.account_id]["aws"].assume_role(
            backend.region_name, task.id, role, "", int(CREDENTIALS_LIFETIME.total_seconds()), ""
        )
    made = program.credentials
    return {
        "RoleArn": role,
        "AccessKeyId": made.access_key_id,
        "SecretAccessKey": made.secret_access_key,
        "Token": made.session_token,
        "Expiration": (datetime.now(UTC) + CREDENTIALS_LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
