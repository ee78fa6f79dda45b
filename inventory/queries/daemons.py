"""Daemons of managed instances that the reader may view."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, QuerySet

from catalog.models import Infrastructure
from inventory.models.daemons import EcsDaemon
from inventory.models.instances import SyncedCluster


def list_daemons(cluster: SyncedCluster | None) -> QuerySet[EcsDaemon]:
    """Return the daemons of a cluster."""
    return EcsDaemon.objects.filter(cluster=cluster, gone_at=None)


def count_daemons(infrastructures: Iterable[Infrastructure]) -> dict[int, int]:
    """Return the number of daemons by the key of each infrastructure with a cluster that has some."""
    places = {place.pk: (place.connector_id, place.region, place.cluster) for place in infrastructures}
    rows = EcsDaemon.objects.filter(
        gone_at=None,
        cluster__connector__in={connector for connector, _, _ in places.values()},
        cluster__cluster__in={cluster for _, _, cluster in places.values()},
    )
    columns = ("cluster__connector", "cluster__region", "cluster__cluster")
    counted = rows.order_by().values_list(*columns).annotate(count=Count("pk"))
    counts = {(connector, region, cluster): count for connector, region, cluster, count in counted}
    return {pk: counts[location] for pk, location in places.items() if location in counts}


def find_denied_reads(cluster: SyncedCluster | None) -> list[Mapping[str, Any]]:
    """Return the denied reads of daemons."""
    entries = cluster.denied_reads if cluster is not None else []
    return [entry for entry in entries if "Daemon" in str(entry.get("operation"))]
