"""Tables of the inventory."""

from inventory.models.adoption import Adoption
from inventory.models.drift import ClusterDriftScan, Drift, DriftComparison, TaskDefinitionRevision
from inventory.models.instances import (
    ContainerInstance,
    EcsServiceEvent,
    EcsServiceRecord,
    ServiceInstance,
    SyncedCluster,
    SyncPause,
)

__all__ = [
    "Adoption",
    "ClusterDriftScan",
    "ContainerInstance",
    "Drift",
    "DriftComparison",
    "EcsServiceEvent",
    "EcsServiceRecord",
    "ServiceInstance",
    "SyncPause",
    "SyncedCluster",
    "TaskDefinitionRevision",
]
