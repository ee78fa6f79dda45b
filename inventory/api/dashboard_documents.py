"""JSON documents of the dashboard routes."""

from collections.abc import Iterable
from typing import Any

from deployments.models import Execution, StageExecution
from inventory.dashboards.deployment_differences import DeploymentDifference, VersionDifference
from inventory.dashboards.deployment_statistics import DeploymentNumbers, DeploymentStatistics
from inventory.dashboards.environment_matrix import EnvironmentMatrix
from inventory.dashboards.overview import OverviewTiles
from inventory.dashboards.rollback_plans import RollbackPlan, can_redeploy
from inventory.dashboards.running_services import RunningService
from inventory.dashboards.target_groups import DashboardTarget, DashboardTargetGroup
from inventory.models.instances import EcsServiceEvent


def serialize_overview(tiles: OverviewTiles, statistics: DeploymentStatistics) -> dict[str, Any]:
    """Serialize the overview with the numbers by day and in total."""
    return {
        "deploying": {
            "count": tiles.deploying_count,
            "newest": [serialize_tile_execution(item) for item in tiles.deploying],
        },
        "waiting": {
            "count": tiles.waiting_count,
            "newest": [serialize_tile_execution(item) for item in tiles.waiting],
        },
        "failed_or_rolled_back": {
            "count": tiles.failed_count,
            "newest": [serialize_tile_execution(item) for item in tiles.failed],
        },
        "drifted": tiles.drifted_count,
        "delegates": {
            "total": tiles.delegates.total,
            "connected": tiles.delegates.connected,
            "away": [
                {"id": item.pk, "name": item.name, "status": item.status, "reason": item.reason}
                for item in tiles.delegates.away
            ],
        },
        "all": _serialize_numbers(statistics.all),
        "days": [{"day": day, **_serialize_numbers(item)} for day, item in statistics.days.items()],
    }


def _serialize_numbers(numbers: DeploymentNumbers) -> dict[str, Any]:
    return {
        **numbers.counts,
        "failure_rate": numbers.failure_rate,
        "deployment_duration_seconds": numbers.deployment_duration,
        "restore_time_seconds": numbers.restore_time,
    }


def serialize_tile_execution(execution: Execution) -> dict[str, Any]:
    """Serialize an execution on a tile."""
    return {
        "id": str(execution.pk),
        "pipeline": execution.pipeline.identifier,
        "number": execution.number,
        "status": execution.status,
        "outcome": execution.outcome or None,
        "created_at": execution.created_at,
        "failure": str((execution.failure or {}).get("message") or "") or None,
    }


def serialize_running_service(running_service: RunningService) -> dict[str, Any]:
    """Serialize an ECS service with its running versions."""
    ecs_service = running_service.ecs_service
    infrastructure = ecs_service.infrastructure
    return {
        "ecs_service": ecs_service.name,
        "environment": infrastructure.environment.identifier if infrastructure else None,
        "infrastructure": infrastructure.identifier if infrastructure else None,
        "account": ecs_service.cluster.account or None,
        "region": ecs_service.cluster.region,
        "cluster": ecs_service.cluster.cluster,
        "desired": ecs_service.desired,
        "running": ecs_service.running,
        "pending": ecs_service.pending,
        "task_definition": ecs_service.task_definition,
        "version": running_service.version or None,
        "versions": [
            {
                "version": version.tag,
                "image": version.image,
                "digest": version.digest,
                "task_definition": version.task_definition,
                "tasks": version.count,
            }
            for version in running_service.versions
        ],
        "scaling": ecs_service.scaling,
        "seen_at": ecs_service.seen_at,
    }


def serialize_deployment(stage: StageExecution) -> dict[str, Any]:
    """Serialize a deployment of a service."""
    execution = stage.execution
    return {
        "id": stage.pk,
        "execution": str(execution.pk),
        "number": execution.number,
        "attempt": execution.attempt,
        "pipeline": execution.pipeline.identifier,
        "environment": stage.values.get("env", {}).get("identifier"),
        "infrastructure": stage.values.get("infra", {}).get("identifier"),
        "ecs_service": stage.ecs_service or None,
        "image": execution.artifact.get("image"),
        "tag": execution.artifact.get("tag"),
        "digest": execution.artifact.get("digest"),
        "status": stage.status,
        "outcome": execution.outcome or None,
        "replays": execution.rerun_of.number if execution.rerun_of else None,
        "started_by": execution.started_by.get_username() if execution.started_by else None,
        "created_at": execution.created_at,
        "started_at": execution.started_at,
        "ended_at": execution.ended_at,
        "can_return": can_redeploy(stage),
    }


def serialize_dashboard(
    running_services: Iterable[RunningService], active: Iterable[StageExecution]
) -> dict[str, Any]:
    """Serialize the running services and the active deployments."""
    return {
        "places": [_serialize_dashboard_service(item) for item in running_services],
        "active": [serialize_deployment(item) for item in active],
    }


def _serialize_dashboard_service(running_service: RunningService) -> dict[str, Any]:
    return {
        **serialize_running_service(running_service),
        "target_groups": [_serialize_target_group(item) for item in running_service.target_groups],
        "usage": _serialize_usage(running_service),
        "drift": {"comparison": running_service.drift.pk, "state": running_service.drift.state}
        if running_service.drift
        else None,
        "kept_back": {name: str(item.get("action")) for name, item in running_service.denied_reads.items()},
    }


def _serialize_target_group(group: DashboardTargetGroup) -> dict[str, Any]:
    unhealthy = [target for target in group.targets if target.is_unhealthy]
    return {
        "arn": group.arn,
        "name": group.name,
        "is_missing": group.is_missing,
        "counts": group.counts,
        "total": sum(group.counts.values()),
        "unhealthy": [_serialize_target(target) for target in unhealthy],
        "unhealthy_total": group.unhealthy_total,
        "others": [_serialize_target(target) for target in group.targets if target not in unhealthy],
        "read_at": group.read_at,
    }


def _serialize_target(target: DashboardTarget) -> dict[str, Any]:
    return {
        "target": target.target,
        "port": target.port,
        "zone": target.zone,
        "state": target.state,
        "reason": target.reason,
        "description": target.description,
        "task": target.task or None,
        "hint": target.hint,
    }


def _serialize_usage(running_service: RunningService) -> dict[str, Any] | None:
    usage = running_service.usage
    if usage is None:
        return None
    points = [
        {"at": reading.at, "cpu": reading.cpu, "memory": reading.memory} for reading in reversed(usage.known)
    ]
    return {"read_at": usage.read_at, "points": points}


def serialize_matrix(matrix: EnvironmentMatrix) -> list[dict[str, Any]]:
    """Serialize the matrix, one row for each service."""
    return [
        {
            "service": {"id": row.service.pk, "identifier": row.service.identifier, "name": row.service.name},
            "scope": row.service.scope.path,
            "differs": row.differs,
            "places": [
                serialize_running_service(running_service) for cell in row.cells for running_service in cell
            ],
        }
        for row in matrix.rows
    ]


def serialize_difference(difference: DeploymentDifference) -> dict[str, Any]:
    """Serialize the differences; `diff` is null if the task definition of one deployment is unknown."""
    text = difference.difference.text if difference.difference else None
    return {
        "from": serialize_deployment(difference.old),
        "to": serialize_deployment(difference.new),
        "groups": _serialize_groups(difference.difference) if difference.difference else [],
        "diff": text.unified if text else None,
        "added": text.added if text else 0,
        "removed": text.removed if text else 0,
    }


def _serialize_groups(difference: VersionDifference) -> list[dict[str, Any]]:
    return [
        {
            "group": group.name,
            "changes": [
                {
                    "document": row.document,
                    "path": row.path,
                    "old": row.old,
                    "new": row.new,
                    "hidden": row.is_hidden,
                }
                for row in group.rows
            ],
        }
        for group in difference.groups
    ]


def serialize_rollback_plan(plan: RollbackPlan) -> dict[str, Any]:
    """Serialize the plan of a rollback."""
    live, difference = plan.live, plan.difference
    return {
        "target": serialize_deployment(plan.target),
        "running": {
            "task_definition": live.task_definition or None,
            "deployment": serialize_deployment(live.deployment) if live.deployment else None,
            "read_at": live.read_at,
            "unknown": live.unknown,
        },
        "compared_with": serialize_deployment(plan.baseline) if plan.baseline else None,
        "groups": _serialize_groups(difference) if difference else None,
        "diff": difference.text.unified if difference and difference.text else None,
        "not_compared": plan.undiffed,
        "is_complete": difference is not None and difference.is_complete,
        "possible": plan.is_possible,
        "obstacles": [{"reason": item.reason, "remedy": item.remedy} for item in plan.obstacles],
        "notes": list(plan.notes),
    }


def serialize_event(event: EcsServiceEvent) -> dict[str, Any]:
    """Serialize an event."""
    ecs_service = event.ecs_service
    infrastructure = ecs_service.infrastructure
    return {
        "id": event.pk,
        "at": event.at,
        "kind": event.kind,
        "message": event.message,
        "count": event.count,
        "count_before": event.before,
        "ecs_service": ecs_service.name,
        "service": ecs_service.service.identifier if ecs_service.service else None,
        "environment": infrastructure.environment.identifier if infrastructure else None,
        "account": ecs_service.cluster.account or None,
        "region": ecs_service.cluster.region,
        "cluster": ecs_service.cluster.cluster,
    }
