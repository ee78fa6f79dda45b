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
# The long columns of an ECS service, which no list reads.
DEFERRED_FIELDS: Final = ("description", "targets", "usage")


def list_service_instances(
    principal: Principal, service: Service, *, stopped: bool = False
) -> QuerySet[ServiceInstance]:
    """The tasks of a service that run, or those that stopped, in environments that the reader may see."""
    rows = ServiceInstance.objects.filter(ecs_service__service=service, stopped_at__isnull=not stopped)
    return filter_visible(principal, VIEW_ENVIRONMENT, select_instance_relations(rows))


def select_instance_relations(rows: QuerySet[ServiceInstance]) -> QuerySet[ServiceInstance]:
    """The same rows, read together with what a list says of each."""
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
    """The cluster that an infrastructure names, or that its last run found, once sync has heard of it."""
    rows = SyncedCluster.objects.select_related("connector").filter(connector=infrastructure.connector_id)
    if "<+" not in infrastructure.region + infrastructure.cluster:
        return rows.filter(region=infrastructure.region, cluster=infrastructure.cluster).first()
    stages = StageExecution.objects.filter(infrastructure=infrastructure).exclude(cluster="")
    settled = stages.order_by("-pk").values_list("region", "cluster").first()
    return rows.filter(region=settled[0], cluster=settled[1]).first() if settled else None


def serialize_instance(row: ServiceInstance) -> dict[str, Any]:
    """A service instance as the API tells it."""
    seen, execution = row.ecs_service, row.execution
    place = seen.infrastructure if seen else None
    return {
        "id": row.pk,
        "task": row.arn,
        "task_id": row.task_id,
        "ecs_service": seen.name if seen else None,
        "service": seen.service.identifier if seen and seen.service else None,
        "environment": place.environment.identifier if place else None,
        "infrastructure": place.identifier if place else None,
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


def _serialize_container_instance(machine: ContainerInstance | None) -> dict[str, Any] | None:
    if machine is None:
        return None
    names = (
        "arn", "ec2_instance", "instance_type", "zone", "status", "agent_connected", "cpu", "cpu_left",
        "memory", "memory_left", "seen_at",
    )  # fmt: skip
    return {name: getattr(machine, name) for name in names}


def _get_origin_name(row: ServiceInstance) -> str:
    execution = row.execution
    return f"{execution.pipeline.name} #{execution.number}" if execution else row.get_origin_display()


def serialize_sync(cluster: SyncedCluster | None, now: datetime) -> Mapping[str, Any]:
    """How fresh what is known of a cluster is, why it is no fresher, and what to do about that."""
    if cluster is None:
        return _serialize_cluster_sync(SyncedCluster(due_at=now), None, now)
    return _serialize_cluster_sync(cluster, get_pauses([cluster]).get(cluster.pk), now)


def _serialize_cluster_sync(
    cluster: SyncedCluster, rest: SyncPause | None, now: datetime
) -> Mapping[str, Any]:
    age = (now - cluster.synced_at).total_seconds() if cluster.synced_at else None
    # A cluster that rests with others may not have failed itself yet.
    told = rest if rest is not None and not cluster.failure else cluster
    return {
        "synced_at": cluster.synced_at,
        "age_seconds": age,
        "due_at": cluster.due_at,
        "under_way": cluster.cursor is not None,
        "seconds": cluster.seconds,
        "calls": cluster.calls,
        "failures": cluster.failures,
        "failed_at": told.failed_at,
        "failure": told.failure,
        "failure_code": told.failure_code,
        "next_step": told.failure_step,
        "rests_until": rest.paused_until if rest is not None and rest.paused_until > now else None,
        "lacking": cluster.denied_reads,
    }
