"""Operations on connectors, event queues, secrets and files; pages, API and admin call them."""

from connectors.operations.connectors import (
    accept_host_key,
    create_connector,
    delete_connector,
    update_connector,
)
from connectors.operations.event_queue_setups import (
    dismiss_event_queue_setup,
    start_event_queue_setup,
    stop_event_queue_setup,
)
from connectors.operations.event_queues import create_event_queue, delete_event_queue
from connectors.operations.file_deletions import delete_file, purge_deletion, undelete_files
from connectors.operations.files import create_folder, move_file, restore_file, save_file
from connectors.operations.secrets import create_secret, delete_secret, run_secret_test, update_secret

__all__ = [
    "accept_host_key",
    "create_connector",
    "create_event_queue",
    "create_folder",
    "create_secret",
    "delete_connector",
    "delete_event_queue",
    "delete_file",
    "delete_secret",
    "dismiss_event_queue_setup",
    "move_file",
    "purge_deletion",
    "restore_file",
    "run_secret_test",
    "save_file",
    "start_event_queue_setup",
    "stop_event_queue_setup",
    "undelete_files",
    "update_connector",
    "update_secret",
]
