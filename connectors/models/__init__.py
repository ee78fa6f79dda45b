"""Models of connectors, secrets and files."""

from connectors.models.connectors import Connector, Secret
from connectors.models.files import FileDeletion, FileNode, FileVersion

__all__ = [
    "Connector",
    "FileDeletion",
    "FileNode",
    "FileVersion",
    "Secret",
]
