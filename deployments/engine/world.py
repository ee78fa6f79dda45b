"""What the engine needs of the world outside the database: doors to AWS and two clocks."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from connectors.models import Connector
from deployments.engine.doors import open_door
from deployments.engine.work import open_work
from deployments.models import StepExecution
from web.clock import database_now


class Door(Protocol):
    """A way to AWS in this process: the call is made while the caller waits."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


class RemoteDoor(Protocol):
    """A way to AWS through a delegate: the call is queued, its answer is written into its row later."""

    def queue(self, call_id: int) -> None:
        """Hand the planned call over; runs inside the commit that plans it."""


@dataclass(frozen=True)
class World:
    """The doors and clocks that a look uses.

    `now` is the database's clock, `monotonic` this process's; `open_work` is the way of work that is no AWS
    call.
    """

    open_door: Callable[[Connector, str], Door | RemoteDoor]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    open_work: Callable[[StepExecution, str, Mapping[str, Any]], Door | RemoteDoor] = open_work


REAL = World(open_door=open_door, now=database_now, monotonic=time.monotonic)
