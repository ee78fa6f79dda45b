"""Upserts of the target health of watched ECS services."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import F

from guards.limits import SYNC_TARGET_GROUPS, SYNC_TARGETS
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.column_values import clean_document
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.watched_services import filter_watched_services

# AWS refuses a call for anything else.
_TARGET_GROUP_ARN_PATTERN: Final = re.compile(
    r"arn:[a-z-]+:elasticloadbalancing:[a-z0-9-]+:\d{12}:targetgroup/[\w/-]{1,300}"
)
_UNHEALTHY_STATES: Final = ("unhealthy", "unavailable")


def list_target_groups(seen: EcsServiceRecord) -> list[str]:
    """The ARNs of the target groups that the tasks of a service register with."""
    found = (one.text("targetGroupArn") for one in list_payloads(seen.description, "loadBalancers"))
    return list(dict.fromkeys(arn for arn in found if _TARGET_GROUP_ARN_PATTERN.fullmatch(arn)))


def list_due_target_groups(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The target groups of the services that somebody looks at, the longest not read first."""
    rows = filter_watched_services(cluster, now).order_by(F("targets_read_at").asc(nulls_first=True), "pk")
    found = (arn for seen in rows[: int(SYNC_TARGET_GROUPS)] for arn in list_target_groups(seen))
    return list(dict.fromkeys(found))[: int(SYNC_TARGET_GROUPS)]


def update_target_health(
    cluster: SyncedCluster, arn: str, answer: Mapping[str, Any] | None, now: datetime
) -> None:
    """Keep how healthy the targets of a group are; `None`: AWS knows no such group."""
    entry = clean_document(_build_group_entry(arn, answer, now))
    rows = [seen for seen in filter_watched_services(cluster, now) if arn in list_target_groups(seen)]
    for seen in rows:
        named = set(list_target_groups(seen))
        others = [one for one in seen.targets if one.get("arn") in named - {arn}]
        seen.targets, seen.targets_read_at = sorted([*others, entry], key=lambda one: str(one["arn"])), now
    EcsServiceRecord.objects.bulk_update(rows, ["targets", "targets_read_at"])


def _build_group_entry(arn: str, answer: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    targets = [_build_target(one) for one in list_payloads(answer, "TargetHealthDescriptions")]
    counts = Counter(one["state"] for one in targets)
    bad = [one for one in targets if one["state"].startswith(_UNHEALTHY_STATES)]
    others = [one for one in targets if one["state"] != "healthy" and one not in bad]
    return {
        "arn": arn,
        "name": arn.split("/")[1],
        "is_missing": answer is None,
        "counts": dict(sorted(counts.items())),
        "total": len(targets),
        "unhealthy": bad[: int(SYNC_TARGETS)],
        "unhealthy_total": len(bad),
        "others": others[: int(SYNC_TARGETS)],
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
    found = described.raw.get(name)
    return AwsPayload(found if isinstance(found, Mapping) else {})
