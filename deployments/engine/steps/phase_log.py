"""Log of a phase of an action: its new lines and notes, which the commit of the phase stores."""

from copy import deepcopy
from typing import TYPE_CHECKING

from deployments.engine.reconcile_context import append_notes
from deployments.journal.callers import CONFIRM_PHASE
from deployments.journal.delegate_calls import read_task_output
from deployments.log import NewLogLine
from deployments.models import AwsCall

if TYPE_CHECKING:
    from deployments.engine.steps.context import EngineStepContext


class PhaseLog:
    """Lines and notes of a phase. A repeated phase adds only lines that are not stored yet."""

    def __init__(self, context: "EngineStepContext") -> None:
        self._context = context
        self._lines: list[NewLogLine] = []
        self._notes: list[str] = []
        # Written with the lines, so that an abandoned phase leaves the row unchanged.
        self._cursors: dict[str, list[int]] = deepcopy(context.row.log_cursors)
        self._line = 0
        self._line_at = 0

    def add_line(self, text: str, level: str) -> None:
        """Add a line, unless an earlier pass stored it."""
        context = self._context
        is_keyed = context.is_replayed or context.phase.startswith(CONFIRM_PHASE)
        if is_keyed and not self._is_new_line():
            return
        self._lines.append(
            NewLogLine(
                at=context.now(),
                step_id=context.log_step.pk,
                step=context.log_step.identifier,
                unit=context.row.unit if context.log_step == context.step else "Rollback",
                level=level,
                text=text,
            )
        )

    def add_note(self, text: str) -> None:
        """Add a note of the execution, and a line with it."""
        self._notes.append(text)
        self.add_line(text, "warning")

    def copy_task_output(self, call: AwsCall) -> None:
        """Add the lines of a delegate's task that were not read yet."""
        context = self._context
        self._lines += read_task_output(call, context.row, self._cursors, context.log_step, context.now())

    def _is_new_line(self) -> bool:
        """Return whether the line is new, by the number of calls before it and its position after them."""
        context, call_count = self._context, self._context.caller.call_count
        self._line = self._line + 1 if call_count == self._line_at else 1
        self._line_at = call_count
        key = f"{context.attempt}/{context.phase}"
        if [call_count, self._line] <= self._cursors.get(key, [0, 0]):
            return False
        self._cursors[key] = [call_count, self._line]
        return True

    def collect_lines(self) -> None:
        """Add the lines to the next commit."""
        reconcile_context, row = self._context.reconcile_context, self._context.row
        if self._lines:
            reconcile_context.rows.add_lines(self._lines, reconcile_context.mask)
            self._lines = []
        if self._cursors != row.log_cursors:
            reconcile_context.change(row, log_cursors=deepcopy(self._cursors))

    def collect_notes(self) -> None:
        """Add the notes of the execution to the next commit, each text once."""
        append_notes(self._context.reconcile_context, self._context.log_step, self._notes)
        self._notes = []

    def discard(self) -> None:
        """Forget what was not committed."""
        self._lines, self._notes = [], []
        self._cursors = deepcopy(self._context.row.log_cursors)
