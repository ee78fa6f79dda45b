"""The tables of the inventory."""

from inventory.models.drift import Adoption, ComparedCluster, Comparison, Drift, KnownRevision
from inventory.models.instances import (
    ContainerInstance,
    SeenEvent,
    SeenService,
    ServiceInstance,
    SyncedCluster,
    SyncPause,
)

__all__ = [
    "Adoption",
    "ComparedCluster",
    "Comparison",
    "ContainerInstance",
    "Drift",
    "KnownRevision",
    "SeenEvent",
    "SeenService",
    "ServiceInstance",
    "SyncPause",
    "SyncedCluster",
]
