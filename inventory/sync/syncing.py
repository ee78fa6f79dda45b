"""The sync of one cluster: from this process, or asked of a delegate."""

from delegates.doors import open_door
from inventory.sync.chains import running
from inventory.sync.progress import Sync


def go_on(pk: int, open_way: running.OpenDoor = open_door) -> None:
    """Sync a cluster for a while, from here; through a delegate its next call is only asked for."""
    running.go_on(Sync, pk, open_way)
