"""Runtime of the engine: AWS access, clocks, and failpoints for tests."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from connectors.models import Connector
from deployments.journal.aws_access import open_engine_access
from deployments.journal.non_aws_calls import open_work_access
from deployments.models import StepExecution
from web.clock import get_database_time


class DirectAwsAccess(Protocol):
    """AWS access in this process: the call is made while the caller waits."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


class QueuedAwsAccess(Protocol):
    """AWS access through a delegate: the call is queued, and its answer is recorded in its row later."""

    def queue(self, call_id: int) -> None:
        """Queue the planned call; runs inside the commit that plans it."""


@dataclass(frozen=True)
class EngineRuntime:
    """AWS access and clocks of a reconcile pass.

    `now` is the database's clock, `monotonic` this process's; `open_work` opens the access for other calls
    than AWS calls.
    """

    open_aws_access: Callable[[Connector, str], DirectAwsAccess | QueuedAwsAccess]
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    open_work: Callable[[StepExecution, str, Mapping[str, Any]], DirectAwsAccess | QueuedAwsAccess] = (
        open_work_access
    )


LIVE_RUNTIME = EngineRuntime(
    open_aws_access=open_engine_access, now=get_database_time, monotonic=time.monotonic
)
FAILPOINTS = (
    "commit.before",
    "commit.after",
    "call.before_sent",
    "call.sent",
    "call.answered",
    "lease.claimed",
    "lease.released",
)
_hooks: list[Callable[[str], None]] = []


def failpoint(name: str) -> None:
    """Pass a named point; a test hook may end or pause the process here."""
    for hook in _hooks:
        hook(name)


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Set the only hook of all failpoints, or remove it with None."""
    _hooks[:] = [] if hook is None else [hook]
