"""The look for drift in one cluster: from this process, or asked of a delegate."""

from delegates.doors import open_door
from inventory.drift.progress import Look
from inventory.sync.chains import running


def go_on(pk: int, open_way: running.OpenDoor = open_door) -> None:
    """Look at a cluster for a while, from here; through a delegate its next call is only asked for."""
    running.go_on(Look, pk, open_way)
