"""Upserts of the target health of watched ECS services."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q

from guards.limits import SYNC_TARGET_GROUPS, SYNC_TARGETS
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.column_values import clean_document
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.watched_services import filter_watched_services

# AWS rejects calls for anything else.
_TARGET_GROUP_ARN_PATTERN: Final = re.compile(
    r"arn:[a-z-]+:elasticloadbalancing:[a-z0-9-]+:\d{12}:targetgroup/[\w/-]{1,300}"
)
# Between syncs of announced changes; shorter than the interval of syncs of watched clusters.
TARGETS_READ_INTERVAL: Final = timedelta(seconds=50)
_UNHEALTHY_STATES: Final = ("unhealthy", "unavailable")


def list_target_groups(ecs_service: EcsServiceRecord) -> list[str]:
    """Return the ARNs of the target groups that a service registers its tasks with.

    With a blue/green deployment of ECS, its tasks are in the alternate one after every second deployment.
    """
    arns = (
        arn
        for load_balancer in list_payloads(ecs_service.description, "loadBalancers")
        for arn in (
            load_balancer.text("targetGroupArn"),
            _read_member(load_balancer, "advancedConfiguration").text("alternateTargetGroupArn"),
        )
    )
    return list(dict.fromkeys(arn for arn in arns if _TARGET_GROUP_ARN_PATTERN.fullmatch(arn)))


def list_due_target_groups(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the target groups of watched services, the oldest read first."""
    rows = filter_watched_services(cluster, now).order_by(F("targets_read_at").asc(nulls_first=True), "pk")
    arns = (arn for ecs_service in rows[: int(SYNC_TARGET_GROUPS)] for arn in list_target_groups(ecs_service))
    return list(dict.fromkeys(arns))[: int(SYNC_TARGET_GROUPS)]


def list_outdated_target_groups(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the target groups of watched services if one was not read for most of a minute."""
    outdated = Q(targets_read_at=None) | Q(targets_read_at__lt=now - TARGETS_READ_INTERVAL)
    is_due = filter_watched_services(cluster, now).filter(outdated).exists()
    return list_due_target_groups(cluster, now) if is_due else []


def update_target_health(
    cluster: SyncedCluster, arn: str, response: Mapping[str, Any] | None, now: datetime
) -> None:
    """Store the target health of a group; without a response, the group does not exist."""
    entry = clean_document(_build_group_entry(arn, response, now))
    rows = [
        ecs_service
        for ecs_service in filter_watched_services(cluster, now)
        if arn in list_target_groups(ecs_service)
    ]
    for ecs_service in rows:
        arns = set(list_target_groups(ecs_service))
        other_entries = [entry_ for entry_ in ecs_service.targets if entry_.get("arn") in arns - {arn}]
        ecs_service.targets, ecs_service.targets_read_at = (
            sorted([*other_entries, entry], key=lambda entry_: str(entry_["arn"])),
            now,
        )
    EcsServiceRecord.objects.bulk_update(rows, ["targets", "targets_read_at"])


def _build_group_entry(arn: str, answer: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    targets = [_build_target(payload) for payload in list_payloads(answer, "TargetHealthDescriptions")]
    counts = Counter(target["state"] for target in targets)
    unhealthy = [target for target in targets if target["state"].startswith(_UNHEALTHY_STATES)]
    other_targets = [target for target in targets if target["state"] != "healthy" and target not in unhealthy]
    return {
        "arn": arn,
        "name": arn.split("/")[1],
        "is_missing": answer is None,
        "counts": dict(sorted(counts.items())),
        "total": len(targets),
        "unhealthy": unhealthy[: int(SYNC_TARGETS)],
        "unhealthy_total": len(unhealthy),
        "others": other_targets[: int(SYNC_TARGETS)],
        "read_at": now.isoformat(),
    }


def _build_target(described: AwsPayload) -> dict[str, Any]:
    target, health = (_read_member(described, name) for name in ("Target", "TargetHealth"))
    return {
        "target": target.text("Id"),
        "port": target.number("Port"),
        "zone": target.text("AvailabilityZone", 64),
        "state": health.text("State", 32) or "unknown",
        "reason": health.text("Reason", 128),
        "description": health.text("Description", 500),
    }


def _read_member(described: AwsPayload, name: str) -> AwsPayload:
    payload = described.raw.get(name)
    return AwsPayload(payload if isinstance(payload, Mapping) else {})
