"""Ends what a whole sync has not seen."""

from datetime import datetime

from inventory.models.instances import SeenService, ServiceInstance, SyncedCluster


def close(cluster: SyncedCluster, began: datetime, now: datetime) -> None:
    """End what a whole sync has not seen: it stopped more than an hour ago, or its service is gone."""
    SeenService.objects.filter(cluster=cluster, gone_at=None, seen_at__lt=began).update(
        gone_at=now, status="INACTIVE", desired=0, running=0, pending=0
    )
    ServiceInstance.objects.filter(cluster=cluster, stopped_at=None, seen_at__lt=began).update(
        stopped_at=now, last_status="STOPPED", desired_status="STOPPED",
        stopped_reason="It was gone when Slipway looked; AWS tells no reason any more.",
    )  # fmt: skip
