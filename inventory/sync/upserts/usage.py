"""Upserts of the CPU and memory usage of watched ECS services."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet

from aws.apis.cloudwatch import CloudWatchMetric
from guards.limits import SYNC_METRIC_SERVICES
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.column_values import parse_datetime
from inventory.sync.ecs_payloads import list_payloads
from inventory.sync.watched_services import filter_watched_services

PERIOD: Final = timedelta(minutes=5)
USAGE_WINDOW: Final = timedelta(hours=3)
USAGE_READ_INTERVAL: Final = timedelta(minutes=4)
# Who has asked and was lost is asked for again.
RESPONSE_TIMEOUT: Final = timedelta(minutes=2)
# How rows and metrics call it.
METRICS: Final[Mapping[str, str]] = {"cpu": "CPUUtilization", "memory": "MemoryUtilization"}
# More than any machine has; a share of what is reserved may well be above a hundred.
_MAX_VALUE: Final = 1_000_000.0
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def build_usage_metrics(services: Iterable[str]) -> list[CloudWatchMetric]:
    """What CloudWatch is asked for: two metrics of each service, named as `CLUSTER/NAME`."""
    return [
        CloudWatchMetric(
            "AWS/ECS",
            metric,
            {"ClusterName": cluster, "ServiceName": name},
            period=int(PERIOD.total_seconds()),
        )
        for cluster, _, name in (one.partition("/") for one in services)
        for metric in METRICS.values()
    ]


def compute_usage_window(until: datetime) -> tuple[datetime, datetime]:
    """Three hours of whole periods, in UTC."""
    whole = until.timestamp() // PERIOD.total_seconds() * PERIOD.total_seconds()
    end = datetime.fromtimestamp(whole, UTC)
    return end - USAGE_WINDOW, end


def list_due_usages(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The services that somebody looks at, of which the last values are minutes old, as `CLUSTER/NAME`.

    They are those of all clusters that this connector reaches in this account and region: the sync that
    comes first asks for all of them, and notes it, so that no other does.
    """
    stale = Q(usage_read_at=None) | Q(usage_read_at__lt=now - USAGE_READ_INTERVAL)
    free = Q(usage_requested_at=None) | Q(usage_requested_at__lt=now - RESPONSE_TIMEOUT)
    rows = filter_watched_services(_filter_same_account(cluster), now).filter(stale, free).order_by("pk")
    known = _lock_rows(rows).only("pk", "name", "cluster__cluster")
    found = [one for one in known if all(map(_NAME_PATTERN.fullmatch, _build_usage_key(one)))][
        : int(SYNC_METRIC_SERVICES)
    ]
    EcsServiceRecord.objects.filter(pk__in=[one.pk for one in found]).update(usage_requested_at=now)
    return list(dict.fromkeys("/".join(_build_usage_key(one)) for one in found))


def _filter_same_account(cluster: SyncedCluster) -> QuerySet[SyncedCluster]:
    """The clusters whose metrics the same call can tell."""
    return SyncedCluster.objects.filter(
        connector=cluster.connector_id, region=cluster.region, account=cluster.account
    )


def _lock_rows(rows: QuerySet[EcsServiceRecord]) -> QuerySet[EcsServiceRecord]:
    """Those rows that no sync of another cluster writes just now: who waited for one could deadlock."""
    return rows.select_related("cluster").select_for_update(skip_locked=True, of=("self",))


def _build_usage_key(seen: EcsServiceRecord) -> tuple[str, str]:
    """How CloudWatch names it: by its cluster and its name."""
    return seen.cluster.cluster.rpartition("/")[2], seen.name


def update_usage(cluster: SyncedCluster, params: Mapping[str, Any], answer: object, now: datetime) -> None:
    """Keep the points of a page of GetMetricData beside those of before it, as far as three hours back."""
    asked = {str(one["Id"]): _parse_query(one) for one in params["MetricDataQueries"]}
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for result in list_payloads(answer, "MetricDataResults"):
        if known := asked.get(result.text("Id", 255)):
            *service, kind = known
            found.setdefault((service[0], service[1]), {}).setdefault(kind, {}).update(
                _parse_points(result.raw)
            )
    services = {(place, name) for place, name, _ in asked.values()}
    named = EcsServiceRecord.objects.filter(
        cluster__in=_filter_same_account(cluster), name__in={name for _, name in services}
    )
    rows = _lock_rows(named).only("pk", "name", "usage", "cluster__cluster")
    oldest, kept = compute_usage_window(now)[0].isoformat(), []
    for row in rows:
        key = _build_usage_key(row)
        if key not in services:
            continue
        new, old = found.get(key, {}), row.usage
        row.usage = {kind: _merge_points(old.get(kind), new.get(kind), oldest) for kind in METRICS}
        row.usage_read_at = now
        kept.append(row)
    EcsServiceRecord.objects.bulk_update(kept, ["usage", "usage_read_at"])


def _parse_query(query: Mapping[str, Any]) -> tuple[str, str, str]:
    """The cluster, the service, and which of the metrics a query asks for."""
    metric = query["MetricStat"]["Metric"]
    told = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
    return (
        told["ClusterName"],
        told["ServiceName"],
        next(kind for kind, told in METRICS.items() if told == metric["MetricName"]),
    )


def _parse_points(result: Mapping[str, Any]) -> dict[str, float]:
    moments, values = (result.get(name) for name in ("Timestamps", "Values"))
    if not (isinstance(moments, list | tuple) and isinstance(values, list | tuple)):
        return {}
    pairs = [(parse_datetime(at), value) for at, value in zip(moments, values, strict=False)]
    return {
        compute_usage_window(at)[1].isoformat(): round(float(value), 3)
        for at, value in pairs
        if at and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_VALUE
    }


def _merge_points(
    old: Mapping[str, float] | None, new: Mapping[str, float] | None, oldest: str
) -> dict[str, float]:
    both = {**(old or {}), **(new or {})}
    kept = sorted((at, value) for at, value in both.items() if at >= oldest)
    return dict(kept[-int(USAGE_WINDOW / PERIOD) - 1 :])
