"""JSON documents of the dashboard routes."""

from collections.abc import Iterable
from typing import Any

from deployments.models import Execution, StageExecution
from inventory.dashboards.deployment_differences import DeploymentDifference
from inventory.dashboards.deployment_statistics import DeploymentNumbers, DeploymentStatistics
from inventory.dashboards.environment_matrix import EnvironmentMatrix
from inventory.dashboards.overview import OverviewTiles
from inventory.dashboards.running_services import RunningService
from inventory.dashboards.target_groups import DashboardTarget, DashboardTargetGroup
from inventory.models.instances import EcsServiceEvent
from inventory.operations.redeployments import can_redeploy


def serialize_overview(now_here: OverviewTiles, found: DeploymentStatistics) -> dict[str, Any]:
    """What goes on, and the figures of each day and of all."""
    return {
        "deploying": {
            "count": now_here.deploying_count,
            "newest": [serialize_tile_execution(one) for one in now_here.deploying],
        },
        "waiting": {
            "count": now_here.waiting_count,
            "newest": [serialize_tile_execution(one) for one in now_here.waiting],
        },
        "failed_or_rolled_back": {
            "count": now_here.failed_count,
            "newest": [serialize_tile_execution(one) for one in now_here.failed],
        },
        "drifted": now_here.drifted_count,
        "delegates": {
            "total": now_here.delegates.total,
            "connected": now_here.delegates.connected,
            "away": [
                {"id": one.pk, "name": one.name, "status": one.status, "reason": one.reason}
                for one in now_here.delegates.away
            ],
        },
        "all": _serialize_numbers(found.all),
        "days": [{"day": day, **_serialize_numbers(one)} for day, one in found.days.items()],
    }


def _serialize_numbers(one: DeploymentNumbers) -> dict[str, Any]:
    return {
        **one.counts,
        "failure_rate": one.failure_rate,
        "deployment_duration_seconds": one.deployment_duration,
        "restore_time_seconds": one.restore_time,
    }


def serialize_tile_execution(one: Execution) -> dict[str, Any]:
    """An execution as a tile names it."""
    return {
        "id": str(one.pk),
        "pipeline": one.pipeline.identifier,
        "number": one.number,
        "status": one.status,
        "outcome": one.outcome or None,
        "created_at": one.created_at,
        "failure": str((one.failure or {}).get("message") or "") or None,
    }


def serialize_running_service(place: RunningService) -> dict[str, Any]:
    """One ECS service with the versions that it runs."""
    seen = place.ecs_service
    infrastructure = seen.infrastructure
    return {
        "ecs_service": seen.name,
        "environment": infrastructure.environment.identifier if infrastructure else None,
        "infrastructure": infrastructure.identifier if infrastructure else None,
        "account": seen.cluster.account or None,
        "region": seen.cluster.region,
        "cluster": seen.cluster.cluster,
        "desired": seen.desired,
        "running": seen.running,
        "pending": seen.pending,
        "task_definition": seen.task_definition,
        "version": place.version or None,
        "versions": [
            {
                "version": one.tag,
                "image": one.image,
                "digest": one.digest,
                "task_definition": one.task_definition,
                "tasks": one.count,
            }
            for one in place.versions
        ],
        "scaling": seen.scaling,
        "seen_at": seen.seen_at,
    }


def serialize_deployment(one: StageExecution) -> dict[str, Any]:
    """One deployment of a service: who, what, when, where, and how it ended."""
    execution = one.execution
    return {
        "id": one.pk,
        "execution": str(execution.pk),
        "number": execution.number,
        "pipeline": execution.pipeline.identifier,
        "environment": one.values.get("env", {}).get("identifier"),
        "infrastructure": one.values.get("infra", {}).get("identifier"),
        "ecs_service": one.ecs_service or None,
        "image": execution.artifact.get("image"),
        "tag": execution.artifact.get("tag"),
        "digest": execution.artifact.get("digest"),
        "status": one.status,
        "outcome": execution.outcome or None,
        "replays": execution.replays.number if execution.replays else None,
        "started_by": execution.started_by.get_username() if execution.started_by else None,
        "created_at": execution.created_at,
        "started_at": execution.started_at,
        "ended_at": execution.ended_at,
        "can_return": can_redeploy(one),
    }


def serialize_dashboard(places: Iterable[RunningService], active: Iterable[StageExecution]) -> dict[str, Any]:
    """What runs of a service, and what is being deployed."""
    return {
        "places": [_serialize_dashboard_service(one) for one in places],
        "active": [serialize_deployment(one) for one in active],
    }


def _serialize_dashboard_service(place: RunningService) -> dict[str, Any]:
    return {
        **serialize_running_service(place),
        "target_groups": [_serialize_target_group(one) for one in place.target_groups],
        "usage": _serialize_usage(place),
        "drift": {"comparison": place.drift.pk, "state": place.drift.state} if place.drift else None,
        "kept_back": {name: str(one.get("action")) for name, one in place.denied_reads.items()},
    }


def _serialize_target_group(group: DashboardTargetGroup) -> dict[str, Any]:
    bad = [one for one in group.targets if one.is_unhealthy]
    return {
        "arn": group.arn,
        "name": group.name,
        "is_missing": group.is_missing,
        "counts": group.counts,
        "total": sum(group.counts.values()),
        "unhealthy": [_serialize_target(one) for one in bad],
        "unhealthy_total": group.unhealthy_total,
        "others": [_serialize_target(one) for one in group.targets if one not in bad],
        "read_at": group.read_at,
    }


def _serialize_target(one: DashboardTarget) -> dict[str, Any]:
    return {
        "target": one.target,
        "port": one.port,
        "zone": one.zone,
        "state": one.state,
        "reason": one.reason,
        "description": one.description,
        "task": one.task or None,
        "hint": one.hint,
    }


def _serialize_usage(place: RunningService) -> dict[str, Any] | None:
    found = place.usage
    if found is None:
        return None
    points = [{"at": one.at, "cpu": one.cpu, "memory": one.memory} for one in reversed(found.known)]
    return {"read_at": found.read_at, "points": points}


def serialize_matrix(found: EnvironmentMatrix) -> list[dict[str, Any]]:
    """A row for each service, with what runs of it in each environment."""
    return [
        {
            "service": {"id": row.service.pk, "identifier": row.service.identifier, "name": row.service.name},
            "scope": row.service.scope.path,
            "differs": row.differs,
            "places": [serialize_running_service(one) for cell in row.cells for one in cell],
        }
        for row in found.rows
    ]


def serialize_difference(found: DeploymentDifference) -> dict[str, Any]:
    """What differs between two deployments; `diff` is null where one registered no task definition."""
    return {
        "from": serialize_deployment(found.old),
        "to": serialize_deployment(found.new),
        "diff": found.diff.unified if found.diff else None,
        "added": found.diff.added if found.diff else 0,
        "removed": found.diff.removed if found.diff else 0,
    }


def serialize_event(one: EcsServiceEvent) -> dict[str, Any]:
    """What ECS or auto scaling said, when, and of what."""
    seen = one.ecs_service
    place = seen.infrastructure
    return {
        "id": one.pk,
        "at": one.at,
        "kind": one.kind,
        "message": one.message,
        "count": one.count,
        "count_before": one.before,
        "ecs_service": seen.name,
        "service": seen.service.identifier if seen.service else None,
        "environment": place.environment.identifier if place else None,
        "account": seen.cluster.account or None,
        "region": seen.cluster.region,
        "cluster": seen.cluster.cluster,
    }
