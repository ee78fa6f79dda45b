"""Tables of the inventory."""

from inventory.models.adoption import Adoption
from inventory.models.changes import AnnouncedChange
from inventory.models.daemons import EcsDaemon
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
    "AnnouncedChange",
    "ClusterDriftScan",
    "ContainerInstance",
    "Drift",
    "DriftComparison",
    "EcsDaemon",
    "EcsServiceEvent",
    "EcsServiceRecord",
    "ServiceInstance",
    "SyncPause",
    "SyncedCluster",
    "TaskDefinitionRevision",
]
