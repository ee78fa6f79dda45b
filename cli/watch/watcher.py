"""Polling of an execution and its log; each line is returned once, also across lost connections."""

from dataclasses import dataclass
from typing import Any, Final

from cli.client import ApiClient
from cli.watch.results import OVER

FULL_PAGE_LINES: Final = 1000
_MIN_PAUSE, _MAX_PAUSE, _GROWTH = 1.0, 2.5, 1.2


@dataclass(frozen=True)
class Update:
    """New state of an execution with the new lines of its log."""

    execution: dict[str, Any]
    lines: list[dict[str, Any]]
    is_over: bool
    """Whether the execution has ended and this update has its last line."""
    pause_seconds: float
    """Pause before the next poll; 0 if more lines are ready."""


class Watcher:
    """Position in the log of one execution."""

    def __init__(self, client: ApiClient, execution_id: str, *, after: int = 0) -> None:
        self.client = client
        self.execution_id = execution_id
        self._after = after
        self._pause = _MIN_PAUSE

    def poll(self) -> Update:
        """Return what is new. Raises `CliError`; the position then stays."""
        page = self.client.get(f"executions/{self.execution_id}/log", after=self._after)
        execution = self.client.get(f"executions/{self.execution_id}")
        lines = page["lines"]
        self._after = lines[-1]["number"] if lines else self._after
        # Retention deletes the log of an old execution, so its end never comes.
        is_deleted = execution["status"] in OVER and execution["details_deleted_at"] is not None
        self._pause = _MIN_PAUSE if lines else min(_MAX_PAUSE, self._pause * _GROWTH)
        return Update(
            execution,
            lines,
            is_over=page["end"] or (is_deleted and not lines),
            pause_seconds=0.0 if len(lines) >= FULL_PAGE_LINES else self._pause,
        )
