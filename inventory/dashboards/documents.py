"""The facts of the overview as the API tells them."""

from collections.abc import Iterable
from typing import Any

from deployments.models import Execution, StageExecution
from inventory.dashboards.differences import Difference
from inventory.dashboards.figures import Figures, Numbers
from inventory.dashboards.matrix import Matrix
from inventory.dashboards.operations import can_be_returned_to
from inventory.dashboards.running import Place
from inventory.dashboards.targets import Target, TargetGroup
from inventory.dashboards.under_way import UnderWay
from inventory.models.instances import SeenEvent


def overview_document(now_here: UnderWay, found: Figures) -> dict[str, Any]:
    """What goes on, and the figures of each day and of all."""
    return {
        "deploying": {
            "count": now_here.deploying_count,
            "newest": [execution_line(one) for one in now_here.deploying],
        },
        "waiting": {
            "count": now_here.waiting_count,
            "newest": [execution_line(one) for one in now_here.waiting],
        },
        "failed_or_rolled_back": {
            "count": now_here.failed_count,
            "newest": [execution_line(one) for one in now_here.failed],
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
        "all": _numbers(found.all),
        "days": [{"day": day, **_numbers(one)} for day, one in found.days.items()],
    }


def _numbers(one: Numbers) -> dict[str, Any]:
    return {
        **one.counts,
        "failure_rate": one.failure_rate,
        "deployment_duration_seconds": one.deployment_duration,
        "restore_time_seconds": one.restore_time,
    }


def execution_line(one: Execution) -> dict[str, Any]:
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


def place_document(place: Place) -> dict[str, Any]:
    """One ECS service with the versions that it runs."""
    seen = place.seen
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


def deployment_document(one: StageExecution) -> dict[str, Any]:
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
        "can_return": can_be_returned_to(one),
    }


def dashboard_document(places: Iterable[Place], active: Iterable[StageExecution]) -> dict[str, Any]:
    """What runs of a service, and what is being deployed."""
    return {
        "places": [_on_dashboard(one) for one in places],
        "active": [deployment_document(one) for one in active],
    }


def _on_dashboard(place: Place) -> dict[str, Any]:
    return {
        **place_document(place),
        "target_groups": [_target_group(one) for one in place.target_groups],
        "usage": _usage(place),
        "drift": {"comparison": place.drift.pk, "state": place.drift.state} if place.drift else None,
        "kept_back": {name: str(one.get("action")) for name, one in place.kept_back.items()},
    }


def _target_group(group: TargetGroup) -> dict[str, Any]:
    bad = [one for one in group.targets if one.is_unhealthy]
    return {
        "arn": group.arn,
        "name": group.name,
        "is_missing": group.is_missing,
        "counts": group.counts,
        "total": sum(group.counts.values()),
        "unhealthy": [_target(one) for one in bad],
        "unhealthy_total": group.unhealthy_total,
        "others": [_target(one) for one in group.targets if one not in bad],
        "read_at": group.read_at,
    }


def _target(one: Target) -> dict[str, Any]:
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


def _usage(place: Place) -> dict[str, Any] | None:
    found = place.usage
    if found is None:
        return None
    points = [{"at": one.at, "cpu": one.cpu, "memory": one.memory} for one in reversed(found.known)]
    return {"read_at": found.read_at, "points": points}


def matrix_documents(found: Matrix) -> list[dict[str, Any]]:
    """A row for each service, with what runs of it in each environment."""
    return [
        {
            "service": {"id": row.service.pk, "identifier": row.service.identifier, "name": row.service.name},
            "scope": row.service.scope.path,
            "differs": row.differs,
            "places": [place_document(one) for cell in row.cells for one in cell],
        }
        for row in found.rows
    ]


def difference_document(found: Difference) -> dict[str, Any]:
    """What differs between two deployments; `diff` is null where one registered no task definition."""
    return {
        "from": deployment_document(found.old),
        "to": deployment_document(found.new),
        "diff": found.diff.unified if found.diff else None,
        "added": found.diff.added if found.diff else 0,
        "removed": found.diff.removed if found.diff else 0,
    }


def event_document(one: SeenEvent) -> dict[str, Any]:
    """What ECS or auto scaling said, when, and of what."""
    seen = one.seen
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
