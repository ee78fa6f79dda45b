"""Models of connectors, event queues, secrets and files."""

from connectors.models.connectors import Connector, Secret
from connectors.models.event_queue_setups import EventQueueSetup
from connectors.models.event_queues import EventQueue
from connectors.models.files import FileDeletion, FileNode, FileVersion

__all__ = [
    "Connector",
    "EventQueue",
    "EventQueueSetup",
    "FileDeletion",
    "FileNode",
    "FileVersion",
    "Secret",
]
