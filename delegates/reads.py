"""Reads that somebody above has a delegate make: one task for one call, which prints nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delegates.doors import DelegateDoor
from delegates.models import DelegateTask
from delegates.operations.tasks import submit_task


@dataclass(frozen=True)
class Read:
    """One call that only reads; `about` is what it is made for, as people call it."""

    service: str
    operation: str
    params: Mapping[str, Any]
    about: str


def queue_read(door: DelegateDoor, read: Read, *, owner: str, ref: str, until: datetime) -> DelegateTask:
    """Queue a call for a delegate that the connector's tags allow; `owner` hears of its answer."""
    said = {"service": read.service, "operation": read.operation, "params": dict(read.params)}
    return submit_task(
        scope=door.connector.scope,
        kind=DelegateTask.Kind.AWS,
        title=f"{read.service}:{read.operation} for {read.about}",
        payload=said,
        owner=owner,
        owner_ref=ref,
        selectors=door.selectors,
        selectors_from="CONNECTOR" if door.selectors else "",
        criterion=door.criterion(read.service),
        connector=door.connector,
        deadline=until,
    )


class ReadOwner:
    """What owners of reads have in common: nothing is printed, and a lost task goes to the next delegate."""

    def again(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def logged(self, task: DelegateTask) -> None:
        """Reads print nothing."""
