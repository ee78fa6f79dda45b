"""Keeps how much CPU and memory those ECS services use that somebody looks at."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet

from aws.cloudwatch import Metric
from guards.limits import SYNC_USAGES
from inventory.models.instances import SeenService, SyncedCluster
from inventory.sync.columns import moment
from inventory.sync.looks import looked_at_lately
from inventory.sync.told import rows_of

PERIOD: Final = timedelta(minutes=5)
BACK: Final = timedelta(hours=3)
READ_EVERY: Final = timedelta(minutes=4)
# Who has asked and was lost is asked for again.
ANSWERED_WITHIN: Final = timedelta(minutes=2)
# How rows and metrics call it.
METRICS: Final[Mapping[str, str]] = {"cpu": "CPUUtilization", "memory": "MemoryUtilization"}
# More than any machine has; a share of what is reserved may well be above a hundred.
_MOST: Final = 1_000_000.0
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")


def usage_metrics(services: Iterable[str]) -> list[Metric]:
    """What CloudWatch is asked for: two metrics of each service, named as `CLUSTER/NAME`."""
    return [
        Metric(
            "AWS/ECS",
            metric,
            {"ClusterName": cluster, "ServiceName": name},
            period=int(PERIOD.total_seconds()),
        )
        for cluster, _, name in (one.partition("/") for one in services)
        for metric in METRICS.values()
    ]


def window(until: datetime) -> tuple[datetime, datetime]:
    """Three hours of whole periods, in UTC."""
    whole = until.timestamp() // PERIOD.total_seconds() * PERIOD.total_seconds()
    end = datetime.fromtimestamp(whole, UTC)
    return end - BACK, end


def usages_to_ask(cluster: SyncedCluster, now: datetime) -> list[str]:
    """The services that somebody looks at, of which the last values are minutes old, as `CLUSTER/NAME`.

    They are those of all clusters that this connector reaches in this account and region: the sync that
    comes first asks for all of them, and notes it, so that no other does.
    """
    stale = Q(usage_read_at=None) | Q(usage_read_at__lt=now - READ_EVERY)
    free = Q(usage_asked_at=None) | Q(usage_asked_at__lt=now - ANSWERED_WITHIN)
    rows = looked_at_lately(_beside(cluster), now).filter(stale, free).order_by("pk")
    known = _locked(rows).only("pk", "name", "cluster__cluster")
    found = [one for one in known if all(map(_NAME.fullmatch, _key_of(one)))][: int(SYNC_USAGES)]
    SeenService.objects.filter(pk__in=[one.pk for one in found]).update(usage_asked_at=now)
    return list(dict.fromkeys("/".join(_key_of(one)) for one in found))


def _beside(cluster: SyncedCluster) -> QuerySet[SyncedCluster]:
    """The clusters whose metrics the same call can tell."""
    return SyncedCluster.objects.filter(
        connector=cluster.connector_id, region=cluster.region, account=cluster.account
    )


def _locked(rows: QuerySet[SeenService]) -> QuerySet[SeenService]:
    """Those rows that no sync of another cluster writes just now: who waited for one could deadlock."""
    return rows.select_related("cluster").select_for_update(skip_locked=True, of=("self",))


def _key_of(seen: SeenService) -> tuple[str, str]:
    """How CloudWatch names it: by its cluster and its name."""
    return seen.cluster.cluster.rpartition("/")[2], seen.name


def keep_usage(cluster: SyncedCluster, params: Mapping[str, Any], answer: object, now: datetime) -> None:
    """Keep the points of a page of GetMetricData beside those of before it, as far as three hours back."""
    asked = {str(one["Id"]): _asked(one) for one in params["MetricDataQueries"]}
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for result in rows_of(answer, "MetricDataResults"):
        if known := asked.get(result.text("Id", 255)):
            *service, kind = known
            found.setdefault((service[0], service[1]), {}).setdefault(kind, {}).update(_points(result.raw))
    services = {(place, name) for place, name, _ in asked.values()}
    named = SeenService.objects.filter(cluster__in=_beside(cluster), name__in={name for _, name in services})
    rows = _locked(named).only("pk", "name", "usage", "cluster__cluster")
    oldest, kept = window(now)[0].isoformat(), []
    for row in rows:
        key = _key_of(row)
        if key not in services:
            continue
        new, old = found.get(key, {}), row.usage
        row.usage = {kind: _joined(old.get(kind), new.get(kind), oldest) for kind in METRICS}
        row.usage_read_at = now
        kept.append(row)
    SeenService.objects.bulk_update(kept, ["usage", "usage_read_at"])


def _asked(query: Mapping[str, Any]) -> tuple[str, str, str]:
    """The cluster, the service, and which of the metrics a query asks for."""
    metric = query["MetricStat"]["Metric"]
    told = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
    return (
        told["ClusterName"],
        told["ServiceName"],
        next(kind for kind, told in METRICS.items() if told == metric["MetricName"]),
    )


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
