"""The tables of connectors, secrets and files, one file per noun."""

from connectors.models.connector import Connector
from connectors.models.file_deletion import FileDeletion
from connectors.models.file_node import FileNode
from connectors.models.file_version import FileVersion
from connectors.models.secret import Secret

__all__ = ["Connector", "FileDeletion", "FileNode", "FileVersion", "Secret"]
