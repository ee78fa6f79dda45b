"""Service instances and sync state that the reader may view."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet

from catalog.models import Infrastructure, Service
from deployments.models import StageExecution
from inventory.models.instances import ContainerInstance, ServiceInstance, SyncedCluster, SyncPause
from inventory.sync.pauses import get_pauses
from rbac.policy import Principal, filter_visible

VIEW_SERVICE: Final = "core_service_view"
VIEW_ENVIRONMENT: Final = "core_environment_view"
# ECS services that one page lists.
MAX_LISTED_ECS_SERVICES: Final = 500
# Large columns that no list needs.
DEFERRED_FIELDS: Final = ("description", "targets", "usage")


def list_service_instances(
    principal: Principal, service: Service, *, stopped: bool = False
) -> QuerySet[ServiceInstance]:
    """Return the visible running or stopped tasks of a service."""
    rows = ServiceInstance.objects.filter(ecs_service__service=service, stopped_at__isnull=not stopped)
    return filter_visible(principal, VIEW_ENVIRONMENT, select_instance_relations(rows))


def select_instance_relations(rows: QuerySet[ServiceInstance]) -> QuerySet[ServiceInstance]:
    """Load the relations that a list shows of each task."""
    return rows.select_related(
        "ecs_service__service",
        "ecs_service__infrastructure__environment__scope",
        "cluster",
        "container_instance",
        "execution__pipeline",
    ).defer(
        "execution__yaml", "execution__pipeline__yaml", *(f"ecs_service__{name}" for name in DEFERRED_FIELDS)
    )


def get_cluster(infrastructure: Infrastructure) -> SyncedCluster | None:
    """Return the cluster of an infrastructure, or of its last deployment, after the first sync."""
    rows = SyncedCluster.objects.select_related("connector").filter(connector=infrastructure.connector_id)
    if "<+" not in infrastructure.region + infrastructure.cluster:
        return rows.filter(region=infrastructure.region, cluster=infrastructure.cluster).first()
    stages = StageExecution.objects.filter(infrastructure=infrastructure).exclude(cluster="")
    location = stages.order_by("-pk").values_list("region", "cluster").first()
    return rows.filter(region=location[0], cluster=location[1]).first() if location else None


def serialize_instance(row: ServiceInstance) -> dict[str, Any]:
    """Serialize a service instance for the API."""
    ecs_service, execution = row.ecs_service, row.execution
    infrastructure = ecs_service.infrastructure if ecs_service else None
    return {
        "id": row.pk,
        "task": row.arn,
        "task_id": row.task_id,
        "ecs_service": ecs_service.name if ecs_service else None,
        "service": ecs_service.service.identifier if ecs_service and ecs_service.service else None,
        "environment": infrastructure.environment.identifier if infrastructure else None,
        "infrastructure": infrastructure.identifier if infrastructure else None,
        "region": row.cluster.region,
        "cluster": row.cluster.cluster,
        "image": row.image,
        "digest": row.digest,
        "task_definition": row.task_definition,
        "status": row.last_status,
        "desired_status": row.desired_status,
        "health": row.health,
        "containers": row.containers,
        "zone": row.zone,
        "launch_type": row.launch_type,
        "capacity_provider": row.capacity_provider,
        "address": row.address,
        "host": row.host,
        "container_instance": _serialize_container_instance(row.container_instance),
        "started_by": {
            "origin": row.origin,
            "name": _get_origin_name(row),
            "execution": str(execution.pk) if execution else None,
            "number": execution.number if execution else None,
            "deployment": row.started_by,
        },
        "created_at": row.created_at,
        "started_at": row.started_at,
        "stopped_at": row.stopped_at,
        "stop_code": row.stop_code,
        "stopped_reason": row.stopped_reason,
        "seen_at": row.seen_at,
    }


def _serialize_container_instance(container_instance: ContainerInstance | None) -> dict[str, Any] | None:
    if container_instance is None:
        return None
    names = (
        "arn", "ec2_instance", "instance_type", "zone", "status", "agent_connected", "cpu", "cpu_left",
        "memory", "memory_left", "seen_at",
    )  # fmt: skip
    return {name: getattr(container_instance, name) for name in names}


def _get_origin_name(row: ServiceInstance) -> str:
    execution = row.execution
    return f"{execution.pipeline.name} #{execution.number}" if execution else row.get_origin_display()


def serialize_sync(cluster: SyncedCluster | None, now: datetime) -> Mapping[str, Any]:
    """Serialize the freshness of a cluster, with failure and next step."""
    if cluster is None:
        return _serialize_cluster_sync(SyncedCluster(due_at=now), None, now)
    return _serialize_cluster_sync(cluster, get_pauses([cluster]).get(cluster.pk), now)


def _serialize_cluster_sync(
    cluster: SyncedCluster, pause: SyncPause | None, now: datetime
) -> Mapping[str, Any]:
    age = (now - cluster.synced_at).total_seconds() if cluster.synced_at else None
    # A paused cluster may not have failed itself.
    source = pause if pause is not None and not cluster.failure else cluster
    return {
        "synced_at": cluster.synced_at,
        "age_seconds": age,
        "due_at": cluster.due_at,
        "under_way": cluster.cursor is not None,
        "seconds": cluster.seconds,
        "calls": cluster.calls,
        "failures": cluster.failures,
        "failed_at": source.failed_at,
        "failure": source.failure,
        "failure_code": source.failure_code,
        "next_step": source.failure_step,
        "rests_until": pause.paused_until if pause is not None and pause.paused_until > now else None,
        "lacking": cluster.denied_reads,
    }
