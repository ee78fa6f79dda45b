"""Keeps how much CPU and memory those ECS services use that somebody looks at."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from aws.cloudwatch import Metric
from guards.limits import SYNC_USAGES
from instances.columns import moment
from instances.looks import looked_at_lately
from instances.models import SeenService, SyncedCluster
from instances.told import rows_of

PERIOD: Final = timedelta(minutes=5)
BACK: Final = timedelta(hours=3)
READ_EVERY: Final = timedelta(minutes=4)
# How rows and metrics call it.
METRICS: Final[Mapping[str, str]] = {"cpu": "CPUUtilization", "memory": "MemoryUtilization"}
# More than any machine has; a share of what is reserved may well be above a hundred.
_MOST: Final = 1_000_000.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def usage_metrics(cluster: str, names: list[str]) -> list[Metric]:
    """What CloudWatch is asked for: two metrics of each service."""
    short = cluster.rpartition("/")[2]
    return [
        Metric(
            "AWS/ECS",
            metric,
            {"ClusterName": short, "ServiceName": name},
            period=int(PERIOD.total_seconds()),
        )
        for name in names
        for metric in METRICS.values()
    ]


def window(until: datetime) -> tuple[datetime, datetime]:
    """Three hours of whole periods, in UTC."""
    whole = until.timestamp() // PERIOD.total_seconds() * PERIOD.total_seconds()
    end = datetime.fromtimestamp(whole, UTC)
    return end - BACK, end


def usages_to_ask(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The names of the services that somebody looks at, of which the last values are minutes old."""
    due = Q(usage_read_at=None) | Q(usage_read_at__lt=now - READ_EVERY)
    names = looked_at_lately(cluster, now).filter(due).order_by("pk").values_list("name", flat=True)
    return [name for name in names if _NAME.fullmatch(name)][: int(SYNC_USAGES)]


def keep_usage(cluster: SyncedCluster, params: Mapping[str, Any], answer: object, now: datetime) -> None:
    """Keep the points of a page of GetMetricData beside those of before it, as far as three hours back."""
    asked = {str(one["Id"]): _asked(one) for one in params["MetricDataQueries"]}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for result in rows_of(answer, "MetricDataResults"):
        if known := asked.get(result.text("Id", 255)):
            name, kind = known
            found.setdefault(name, {}).setdefault(kind, {}).update(_points(result.raw))
    names = {name for name, _ in asked.values()}
    rows = list(SeenService.objects.filter(cluster=cluster, name__in=names).only("pk", "name", "usage"))
    oldest = window(now)[0].isoformat()
    for row in rows:
        new, old = found.get(row.name, {}), row.usage
        row.usage = {kind: _joined(old.get(kind), new.get(kind), oldest) for kind in METRICS}
        row.usage_read_at = now
    SeenService.objects.bulk_update(rows, ["usage", "usage_read_at"])


def _asked(query: Mapping[str, Any]) -> tuple[str, str]:
    metric = query["MetricStat"]["Metric"]
    name = next(one["Value"] for one in metric["Dimensions"] if one["Name"] == "ServiceName")
    return name, next(kind for kind, told in METRICS.items() if told == metric["MetricName"])


def _points(result: Mapping[str, Any]) -> dict[str, float]:
    moments, values = (result.get(name) for name in ("Timestamps", "Values"))
    if not (isinstance(moments, list | tuple) and isinstance(values, list | tuple)):
        return {}
    pairs = [(moment(at), value) for at, value in zip(moments, values, strict=False)]
    return {
        window(at)[1].isoformat(): round(float(value), 3)
        for at, value in pairs
        if at and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    }


def _joined(
    old: Mapping[str, float] | None, new: Mapping[str, float] | None, oldest: str
) -> dict[str, float]:
    both = {**(old or {}), **(new or {})}
    kept = sorted((at, value) for at, value in both.items() if at >= oldest)
    return dict(kept[-int(BACK / PERIOD) - 1 :])
