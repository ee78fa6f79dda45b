"""Port to what runs pipelines: executions are in a package above, which registers itself here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from pipelines.models import Pipeline
from rbac.models import User


@dataclass(frozen=True)
class TriggeredRun:
    """Run that an event asks for; the same `key` starts it once. `cause` is shown with the execution.

    `digest` is that of the pushed tag of this `repository`; both are empty if the event has none.
    """

    actor: User
    pipeline: Pipeline
    tag: str
    inputs: Mapping[str, Any]
    key: str
    cause: str
    repository: str = ""
    digest: str = ""


@dataclass(frozen=True)
class StartedRun:
    """Execution of a run."""

    execution_id: UUID
    number: int


class RunStarter(Protocol):
    """What starts runs, with the checks of a run by hand: permissions, freezes, archived scopes, inputs."""

    def start(self, run: TriggeredRun) -> StartedRun:
        """Start a run in the current transaction. Raises `Problem` or an access error."""
        ...

    def check(self, run: TriggeredRun) -> None:
        """Raise what `start` would raise."""
        ...


_starters: list[RunStarter] = []


def register_run_starter(starter: RunStarter) -> None:
    """Register what starts the runs of all triggers."""
    _starters[:] = [starter]


def get_run_starter() -> RunStarter:
    """Return what starts the runs of all triggers."""
    return _starters[0]
