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
# After this time without a response, another sync repeats the request.
RESPONSE_TIMEOUT: Final = timedelta(minutes=2)
# The column keys and the CloudWatch metrics.
METRICS: Final[Mapping[str, str]] = {"cpu": "CPUUtilization", "memory": "MemoryUtilization"}
# A bound against malformed values; usage of a reservation may exceed 100 percent.
_MAX_VALUE: Final = 1_000_000.0
_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def build_usage_metrics(services: Iterable[str]) -> list[CloudWatchMetric]:
    """Build the two metrics of each service, given as `CLUSTER/NAME`."""
    return [
        CloudWatchMetric(
            "AWS/ECS",
            metric,
            {"ClusterName": cluster, "ServiceName": name},
            period=int(PERIOD.total_seconds()),
        )
        for cluster, _, name in (service.partition("/") for service in services)
        for metric in METRICS.values()
    ]


def compute_usage_window(until: datetime) -> tuple[datetime, datetime]:
    """Return three hours of whole periods, in UTC."""
    period_end = until.timestamp() // PERIOD.total_seconds() * PERIOD.total_seconds()
    end = datetime.fromtimestamp(period_end, UTC)
    return end - USAGE_WINDOW, end


def list_due_usages(cluster: SyncedCluster, now: datetime) -> list[str]:
    """Return the watched services whose usage is stale, as `CLUSTER/NAME`.

    They include all clusters of this connector, account and region; the request is recorded, so that one
    sync reads them for all.
    """
    stale = Q(usage_read_at=None) | Q(usage_read_at__lt=now - USAGE_READ_INTERVAL)
    unrequested = Q(usage_requested_at=None) | Q(usage_requested_at__lt=now - RESPONSE_TIMEOUT)
    rows = (
        filter_watched_services(_filter_same_account(cluster), now).filter(stale, unrequested).order_by("pk")
    )
    locked = _lock_rows(rows).only("pk", "name", "cluster__cluster")
    due = [row for row in locked if all(map(_NAME_PATTERN.fullmatch, _build_usage_key(row)))][
        : int(SYNC_METRIC_SERVICES)
    ]
    EcsServiceRecord.objects.filter(pk__in=[row.pk for row in due]).update(usage_requested_at=now)
    return list(dict.fromkeys("/".join(_build_usage_key(row)) for row in due))


def _filter_same_account(cluster: SyncedCluster) -> QuerySet[SyncedCluster]:
    """Return the clusters whose metrics the same call can return."""
    return SyncedCluster.objects.filter(
        connector=cluster.connector_id, region=cluster.region, account=cluster.account
    )


def _lock_rows(rows: QuerySet[EcsServiceRecord]) -> QuerySet[EcsServiceRecord]:
    """Lock the rows that no other sync is writing; waiting could deadlock."""
    return rows.select_related("cluster").select_for_update(skip_locked=True, of=("self",))


def _build_usage_key(ecs_service: EcsServiceRecord) -> tuple[str, str]:
    """Return cluster and name in the format of CloudWatch."""
    return ecs_service.cluster.cluster.rpartition("/")[2], ecs_service.name


def update_usage(cluster: SyncedCluster, params: Mapping[str, Any], response: object, now: datetime) -> None:
    """Merge a page of GetMetricData into the stored three hours."""
    queries = {str(query["Id"]): _parse_query(query) for query in params["MetricDataQueries"]}
    points: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for result in list_payloads(response, "MetricDataResults"):
        if query_key := queries.get(result.text("Id", 255)):
            *service, kind = query_key
            points.setdefault((service[0], service[1]), {}).setdefault(kind, {}).update(
                _parse_points(result.raw)
            )
    services = {(cluster_name, name) for cluster_name, name, _ in queries.values()}
    requested = EcsServiceRecord.objects.filter(
        cluster__in=_filter_same_account(cluster), name__in={name for _, name in services}
    )
    rows = _lock_rows(requested).only("pk", "name", "usage", "cluster__cluster")
    oldest, updated = compute_usage_window(now)[0].isoformat(), []
    for row in rows:
        key = _build_usage_key(row)
        if key not in services:
            continue
        new, old = points.get(key, {}), row.usage
        row.usage = {kind: _merge_points(old.get(kind), new.get(kind), oldest) for kind in METRICS}
        row.usage_read_at = now
        updated.append(row)
    EcsServiceRecord.objects.bulk_update(updated, ["usage", "usage_read_at"])


def _parse_query(query: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the cluster, service and metric of a query."""
    metric = query["MetricStat"]["Metric"]
    dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}
    return (
        dimensions["ClusterName"],
        dimensions["ServiceName"],
        next(kind for kind, dimensions in METRICS.items() if dimensions == metric["MetricName"]),
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
    merged = {**(old or {}), **(new or {})}
    recent = sorted((at, value) for at, value in merged.items() if at >= oldest)
    return dict(recent[-int(USAGE_WINDOW / PERIOD) - 1 :])
