"""What the journal needs of the run of an action that makes calls."""

from collections.abc import Mapping
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
    @property
    def world(self) -> World: ...
    @property
    def door(self) -> Door: ...
    @property
    def remote(self) -> Remote | None: ...
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

    def take_token(self, row: Call) -> None:
        """Raise `Parked` unless this account and region may be asked for this call now."""
        ...

    def keep_call(self, row: Call) -> None:
        """Write this row with the next commit."""
        ...

    def consume(self, row: Call) -> None:
        """Forget the result of a look's read once the look is committed."""
        ...

    def flush(self) -> None:
        """Write what was gathered so far; inside a fenced commit."""
        ...
