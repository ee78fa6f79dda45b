"""Models of connectors, secrets and files."""

from connectors.models.connectors import Connector
from connectors.models.files import FileDeletion, FileNode, FileVersion
from connectors.models.secrets import Secret

__all__ = [
    "Connector",
    "FileDeletion",
    "FileNode",
    "FileVersion",
    "Secret",
]
