"""Upserts of ECS tasks, one service instance each."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django.db.models import Q

from deployments.models import Execution, StageExecution, StepExecution
from inventory.models.instances import EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.column_values import build_row, clean_text
from inventory.sync.ecs_payloads import MAX_SERVICE_NAME_LENGTH, AwsPayload, list_payloads
from inventory.sync.owners import list_lock_keys
from inventory.sync.upserts.container_instances import create_container_instances

Origin = ServiceInstance.Origin
# Clocks differ, and ECS starts tasks for a while after a deployment.
CLOCK_TOLERANCE = timedelta(minutes=1)
_ExecutionsByDeployment = dict[str, tuple[UUID, datetime | None]]


@dataclass(frozen=True)
class TaskOrigins:
    """The executions by ECS deployment; loaded once for a page of tasks."""

    executions: Mapping[str, tuple[UUID, datetime | None]]

    @classmethod
    def of(cls, cluster: SyncedCluster, tasks: Sequence[AwsPayload]) -> Self:
        """Load the executions of these tasks in three queries at most."""
        started = {name for task in tasks if (name := task.text("startedBy"))}
        executions = {
            **_read_step_deployments(cluster, tasks, started),
            **_read_stage_deployments(cluster, started),
        }
        return cls({**executions, **_read_run_tasks(started - executions.keys())})

    def get_origin(self, task: AwsPayload) -> tuple[str, UUID | None]:
        """Return the origin of a task, and the execution that deployed it."""
        entry = self.executions.get(task.text("startedBy"))
        if entry is None:
            return Origin.OUTSIDE, None
        execution, ended_at = entry
        created = task.moment("createdAt")
        is_later = ended_at is not None and created is not None and created > ended_at + CLOCK_TOLERANCE
        return (Origin.REPLACED if is_later else Origin.EXECUTION), execution


def _read_stage_deployments(cluster: SyncedCluster, started: set[str]) -> _ExecutionsByDeployment:
    stages = StageExecution.objects.filter(
        deployment_id__in=started, connector=cluster.connector_id, region=cluster.region
    )
    rows = stages.order_by("pk").values_list("deployment_id", "execution", "execution__ended_at")
    return {deployment: (execution, ended) for deployment, execution, ended in rows}


def _read_step_deployments(
    cluster: SyncedCluster, tasks: Sequence[AwsPayload], started: set[str]
) -> _ExecutionsByDeployment:
    """Return the deployments of steps in branches and of rollbacks."""
    keys = list_lock_keys(cluster, {name for task in tasks if (name := parse_service_name(task))})
    by_deployment = Q(outputs__deploymentId__in=started) | Q(outputs__rollbackDeploymentId__in=started)
    steps = StepExecution.objects.filter(
        by_deployment, claims__key__in=keys, stage__connector=cluster.connector_id
    )
    rows = list(
        steps.order_by("pk").values_list(
            "outputs__deploymentId",
            "outputs__rollbackDeploymentId",
            "stage__execution",
            "stage__execution__ended_at",
        )
    )
    # A rollback that only set a count reuses the deployment of an earlier execution.
    back = {returned: (execution, ended) for _, returned, execution, ended in rows}
    return {**back, **{deployed: (execution, ended) for deployed, _, execution, ended in rows}}


def _read_run_tasks(started: set[str]) -> _ExecutionsByDeployment:
    """Return the executions of tasks that a step ran; ECS never replaces them."""
    keys = {key for text in started if (key := _parse_uuid(text)) is not None}
    rows = Execution.objects.filter(pk__in=keys) if keys else Execution.objects.none()
    return {str(pk): (pk, None) for pk in rows.values_list("pk", flat=True)}


def _parse_uuid(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


def parse_service_name(task: AwsPayload) -> str:
    """Return the ECS service of a task; empty for a task without one."""
    group = task.raw.get("group")
    if not isinstance(group, str) or not group.startswith("service:"):
        return ""
    return clean_text(group.removeprefix("service:"), MAX_SERVICE_NAME_LENGTH)


_TASK_FIELDS: Final = (
    "ecs_service", "container_instance", "image", "digest", "containers", "last_status", "desired_status",
    "health", "zone", "launch_type", "capacity_provider", "address", "host", "started_at", "stopped_at",
    "stop_code", "stopped_reason", "version", "fingerprint", "seen_at",
)  # fmt: skip
# The limit of a task definition.
_MAX_CONTAINERS: Final = 100


def upsert_tasks(cluster: SyncedCluster, response: object, now: datetime) -> None:
    """Insert or update the ECS tasks in a response; unchanged ones only get a new `seen_at`.

    One whose ECS service was not known yet, since a sync reads tasks after services, is updated too.
    """
    by_arn = {arn: task for task in list_payloads(response, "tasks") if (arn := task.text("taskArn"))}
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(by_arn))
    fingerprints: dict[str, str] = {}
    unassigned: set[str] = set()
    for arn, fingerprint, ecs_service in rows.values_list("arn", "fingerprint", "ecs_service"):
        fingerprints[arn] = fingerprint
        if ecs_service is None and parse_service_name(by_arn[arn]):
            unassigned.add(arn)
    changed = {
        arn: task
        for arn, task in by_arn.items()
        if arn in unassigned or fingerprints.get(arn) != compute_task_fingerprint(task)
    }
    if unchanged := by_arn.keys() - changed.keys():
        ServiceInstance.objects.filter(cluster=cluster, arn__in=list(unchanged)).update(seen_at=now)
    names = {name for task in changed.values() if (name := parse_service_name(task))}
    services = dict(
        EcsServiceRecord.objects.filter(cluster=cluster, name__in=names).values_list("name", "pk")
    )
    machines = create_container_instances(
        cluster, [task.text("containerInstanceArn") for task in changed.values()], now
    )
    origins = TaskOrigins.of(cluster, [task for arn, task in changed.items() if arn not in fingerprints])
    ServiceInstance.objects.bulk_create(
        [
            _build_task_row(cluster, arn, task, TaskRelations(services, machines, origins), now)
            for arn, task in changed.items()
        ],
        update_conflicts=True,
        unique_fields=["cluster", "arn"],
        update_fields=_TASK_FIELDS,
    )


def compute_task_fingerprint(task: AwsPayload) -> str:
    """Return a hash of a described task."""
    text = json.dumps(task.raw, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TaskRelations:
    """The rows that tasks refer to: services by name, container instances by ARN, executions."""

    services: Mapping[str, int]
    container_instances: Mapping[str, int]
    origins: TaskOrigins


def _build_task_row(
    cluster: SyncedCluster, arn: str, task: AwsPayload, relations: TaskRelations, now: datetime
) -> ServiceInstance:
    containers = [_build_container(container) for container in task.rows("containers")[:_MAX_CONTAINERS]]
    first = containers[0] if containers else {"image": "", "digest": ""}
    origin, execution = relations.origins.get_origin(task)
    return build_row(
        ServiceInstance,
        cluster_id=cluster.pk,
        ecs_service_id=relations.services.get(parse_service_name(task)),
        container_instance_id=relations.container_instances.get(task.text("containerInstanceArn")),
        arn=arn,
        task_id=arn.rsplit("/", 1)[-1],
        task_definition=task.text("taskDefinitionArn"),
        image=first["image"],
        digest=first["digest"],
        containers=containers,
        last_status=task.text("lastStatus"),
        desired_status=task.text("desiredStatus"),
        health=task.text("healthStatus"),
        zone=task.text("availabilityZone"),
        launch_type=task.text("launchType"),
        capacity_provider=task.text("capacityProviderName"),
        address=_read_ip_address(task),
        host=task.text("containerInstanceArn"),
        started_by=task.text("startedBy"),
        origin=origin,
        execution_id=execution,
        created_at=task.moment("createdAt") or now,
        started_at=task.moment("startedAt"),
        stopped_at=task.moment("stoppedAt") or (now if task.text("lastStatus") == "STOPPED" else None),
        stop_code=task.text("stopCode"),
        stopped_reason=task.text("stoppedReason", 4000),
        version=task.number("version") or 0,
        fingerprint=compute_task_fingerprint(task),
        seen_at=now,
    )


def _build_container(container: AwsPayload) -> dict[str, Any]:
    return {
        "name": container.text("name", 255),
        "image": container.text("image"),
        "digest": container.text("imageDigest", 128),
        "status": container.text("lastStatus", 32),
        "health": container.text("healthStatus", 32),
        "exit_code": container.number("exitCode"),
        "reason": container.text("reason", 1024),
    }


def _read_ip_address(task: AwsPayload) -> str:
    details = (detail for attachment in task.rows("attachments") for detail in attachment.rows("details"))
    return next(
        (detail.text("value") for detail in details if detail.text("name") == "privateIPv4Address"), ""
    )


def filter_stored_stopped(cluster: SyncedCluster, arns: Iterable[str]) -> set[str]:
    """Return the tasks among these whose end is stored."""
    rows = ServiceInstance.objects.filter(cluster=cluster, arn__in=list(arns), stopped_at__isnull=False)
    return set(rows.values_list("arn", flat=True))
