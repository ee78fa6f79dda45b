"""Everything that a person can do to connectors, secrets and files; page, API and admin all call these."""

from connectors.operations.connectors import create_connector, delete_connector, update_connector
from connectors.operations.file_deletions import delete_file, forget_deletion, undelete_files
from connectors.operations.file_moves import move_file
from connectors.operations.files import create_folder, restore_file, save_file
from connectors.operations.host_keys import accept_host_key
from connectors.operations.secrets import create_secret, delete_secret, update_secret

__all__ = [
    "accept_host_key",
    "create_connector",
    "create_folder",
    "create_secret",
    "delete_connector",
    "delete_file",
    "delete_secret",
    "forget_deletion",
    "move_file",
    "restore_file",
    "save_file",
    "undelete_files",
    "update_connector",
    "update_secret",
]
