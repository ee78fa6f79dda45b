"""Keeps how healthy the targets of those ECS services are that somebody looks at."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db.models import F

from guards.limits import SYNC_TARGET_GROUPS, TARGETS_KEPT
from inventory.models.instances import SeenService, SyncedCluster
from inventory.sync.columns import document
from inventory.sync.looks import looked_at_lately
from inventory.sync.told import Told, rows_of

# AWS refuses a call for anything else.
_ARN: Final = re.compile(r"arn:[a-z-]+:elasticloadbalancing:[a-z0-9-]+:\d{12}:targetgroup/[\w/-]{1,300}")
_BAD: Final = ("unhealthy", "unavailable")


def groups_of(seen: SeenService) -> list[str]:
    """The ARNs of the target groups that the tasks of a service register with."""
    found = (one.text("targetGroupArn") for one in rows_of(seen.answered, "loadBalancers"))
    return list(dict.fromkeys(arn for arn in found if _ARN.fullmatch(arn)))


def groups_to_ask(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The target groups of the services that somebody looks at, the longest not read first."""
    rows = looked_at_lately(cluster, now).order_by(F("targets_read_at").asc(nulls_first=True), "pk")
    found = (arn for seen in rows[: int(SYNC_TARGET_GROUPS)] for arn in groups_of(seen))
    return list(dict.fromkeys(found))[: int(SYNC_TARGET_GROUPS)]


def keep_health(cluster: SyncedCluster, arn: str, answer: Mapping[str, Any] | None, now: datetime) -> None:
    """Keep how healthy the targets of a group are; `None`: AWS knows no such group."""
    entry = document(_entry(arn, answer, now))
    rows = [seen for seen in looked_at_lately(cluster, now) if arn in groups_of(seen)]
    for seen in rows:
        named = set(groups_of(seen))
        others = [one for one in seen.targets if one.get("arn") in named - {arn}]
        seen.targets, seen.targets_read_at = sorted([*others, entry], key=lambda one: str(one["arn"])), now
    SeenService.objects.bulk_update(rows, ["targets", "targets_read_at"])


def _entry(arn: str, answer: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    targets = [_target(one) for one in rows_of(answer, "TargetHealthDescriptions")]
    counts = Counter(one["state"] for one in targets)
    bad = [one for one in targets if one["state"].startswith(_BAD)]
    others = [one for one in targets if one["state"] != "healthy" and one not in bad]
    return {
        "arn": arn,
        "name": arn.split("/")[1],
        "is_missing": answer is None,
        "counts": dict(sorted(counts.items())),
        "total": len(targets),
        "unhealthy": bad[: int(TARGETS_KEPT)],
        "unhealthy_total": len(bad),
        "others": others[: int(TARGETS_KEPT)],
        "read_at": now.isoformat(),
    }


def _target(described: Told) -> dict[str, Any]:
    target, health = (_inner(described, name) for name in ("Target", "TargetHealth"))
    return {
        "target": target.text("Id"),
        "port": target.number("Port"),
        "zone": target.text("AvailabilityZone", 64),
        "state": health.text("State", 32) or "unknown",
        "reason": health.text("Reason", 128),
        "description": health.text("Description", 500),
    }


def _inner(described: Told, name: str) -> Told:
    found = described.raw.get(name)
    return Told(found if isinstance(found, Mapping) else {})
