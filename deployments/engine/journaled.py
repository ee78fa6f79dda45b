"""What the journal needs of the run of an action that makes calls."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol

from deployments.engine.lease import Lease
from deployments.engine.world import Door, World
from deployments.models import ActionRun, Call


class Remote(Protocol):
    """Calls that a delegate makes: each method gives an answer that is here, or parks the execution."""

    def answer(self, row: Call) -> dict[str, Any]: ...
    def look(self, row: Call) -> dict[str, Any]: ...


class Journaled(Protocol):
    """One run of one phase of one action."""

    row: ActionRun
    attempt: int
    phase: str

    @property
    def lease(self) -> Lease: ...
    def commit(self) -> AbstractContextManager[None]:
        """A fenced commit of what was handed over."""
        ...

    def save(self) -> None:
        """Commit what was handed over."""
        ...

    def calls(self) -> list[Call]:
        """The calls of this phase so far."""
        ...

    @property
    def world(self) -> World: ...
    @property
    def quota(self) -> str: ...
    @property
    def is_forward(self) -> bool: ...
    @property
    def floor(self) -> datetime:
        """Looks judge only what was seen after this moment (rule 10)."""
        ...

    def new_call(
        self,
        number: int,
        service: str,
        operation: str,
        params: Mapping[str, Any],
        instead_of: Call | None = None,
    ) -> Call: ...

    def door_for(self, row: Call) -> Door:
        """The way of a call that is made while this look waits."""
        ...

    def remote_for(self, row: Call) -> Remote | None:
        """The way of a call that a delegate makes; None where it is made within this look."""
        ...

    def relay(self, row: Call) -> None:
        """Bring what a delegate printed for this call into the step's log."""
        ...

    def take_token(self, row: Call) -> None:
        """Raise `Parked` unless this account and region may be asked for this call now."""
        ...

    def keep_call(self, row: Call) -> None:
        """Write this row with the next commit."""
        ...

    def consume(self, row: Call) -> None:
        """Forget the result of a look's read once the look is committed."""
        ...

    def hand_over(self) -> None:
        """Give what was gathered so far to the next commit."""
        ...

    def flush(self) -> None:
        """Write what was gathered so far; inside a commit."""
        ...

    def change(self, row: Call, **values: object) -> None:
        """Change columns of a call; the next commit writes them."""
        ...
