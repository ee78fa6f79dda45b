"""CloudWatch metrics of ECS services under a varying load."""

import math
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.cloudwatch.models import CloudWatchBackend
from moto.ecs.models import ecs_backends

from sandbox.clock import CLOCK
from sandbox.services.ecs.backend import SandboxEcs
from sandbox.services.ecs.records import SandboxService

NAMESPACE = "AWS/ECS"
# Each metric: mean level, difference between services, amplitude.
_LEVELS = {"CPUUtilization": (28.0, 24.0, 12.0), "MemoryUtilization": (48.0, 26.0, 3.0)}
_STATISTICS = {"Average": 1.0, "Minimum": 0.7, "Maximum": 1.3}
_SWING_SECONDS = 5400.0


def install_cloudwatch() -> None:
    """Add ECS metrics to moto's CloudWatch; data put by a client takes precedence."""
    original = CloudWatchBackend.get_metric_data

    def get_metric_data(
        self: CloudWatchBackend, queries: list[dict[str, Any]], start_time: datetime, end_time: datetime,
        scan_by: str = "TimestampAscending",
    ) -> list[dict[str, Any]]:  # fmt: skip
        results = original(self, queries, start_time, end_time, scan_by)
        metrics = {str(query["Id"]): query["MetricStat"] for query in queries if "MetricStat" in query}
        for result in results:
            stat = metrics.get(str(result["id"]))
            if stat is None or result["values"]:
                continue
            points = list(_list_points(self, stat, start_time, end_time))
            if scan_by == "TimestampDescending":
                points.reverse()
            result["timestamps"] = [at for at, _ in points]
            result["values"] = [value for _, value in points]
        return results

    CloudWatchBackend.get_metric_data = get_metric_data


def _list_points(
    cloudwatch: CloudWatchBackend, stat: Mapping[str, Any], since: datetime, until: datetime
) -> Iterator[tuple[datetime, float]]:
    metric, period = stat["Metric"], int(stat["Period"])
    service = _find_service(cloudwatch, metric)
    share = _STATISTICS.get(stat["Stat"])
    if service is None or share is None or not service.running_count:
        return
    first = max(_make_aware(since), service.created_at).timestamp() // period * period
    at, end = datetime.fromtimestamp(first, UTC), min(_make_aware(until), CLOCK.now())
    while at < end:
        value = _compute_level(
            f"{metric['MetricName']}:{service.service_arn}", metric["MetricName"], at.timestamp()
        )
        yield at, round(min(value * share, 100.0), 3)
        at += timedelta(seconds=period)


def _find_service(cloudwatch: CloudWatchBackend, metric: Mapping[str, Any]) -> SandboxService | None:
    dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric.get("Dimensions") or ()}
    if metric["Namespace"] != NAMESPACE or metric["MetricName"] not in _LEVELS:
        return None
    if set(dimensions) != {"ClusterName", "ServiceName"}:
        return None
    ecs = ecs_backends[cloudwatch.account_id][cloudwatch.region_name]
    key = f"{dimensions['ClusterName']}:{dimensions['ServiceName']}"
    return ecs.services.get(key) if isinstance(ecs, SandboxEcs) else None


def _compute_level(name: str, metric: str, at: float) -> float:
    """Return the value at a moment, always the same: a slow wave with noise."""
    level, differs, swings = _LEVELS[metric]
    own = zlib.crc32(name.encode()) / 2**32
    noise = zlib.crc32(f"{name}:{at:.0f}".encode()) / 2**32 - 0.5
    swing = math.sin(2 * math.pi * (at / _SWING_SECONDS + own))
    return level + differs * (own - 0.5) + swings * (swing + noise * 0.5)


def _make_aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
