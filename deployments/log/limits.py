"""How much of a container's output a step keeps; Slipway's own lines are always kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from deployments.log.lines import NewLine, Origin
from deployments.models import StepExecution

MOST_BYTES_PER_STEP = 100 * 1024 * 1024
# A line and its text as it is stored: cleaned, with secrets hidden.
Row = tuple[NewLine, str]


class Change(Protocol):
    """Sets columns of a step."""

    def __call__(self, row: StepExecution, /, **values: object) -> None: ...


@dataclass
class _Output:
    """The output of one step so far: bytes kept, and what was left out since that was last said."""

    kept: int
    dropped: int
    last: str

    def take(self, line: NewLine, text: str) -> list[Row]:
        """What the log gets instead of this line."""
        if line.said_by is not Origin.CONTAINER:
            return [*self._told(line), (line, text)]
        size = len(text)
        if self.dropped or self.kept + size > MOST_BYTES_PER_STEP:
            self.dropped, self.last = self.dropped + 1, text
            return [self._limit(line)] if self.dropped == 1 else []
        self.kept += size
        return [(line, text)]

    def _limit(self, line: NewLine) -> Row:
        return _own(
            line,
            f"The output of this step is longer than {MOST_BYTES_PER_STEP // 1024 // 1024} MiB: "
            "from here on its lines are counted and not kept.",
        )

    def _told(self, line: NewLine) -> list[Row]:
        if not self.dropped:
            return []
        text = f"{self.dropped:,} lines of output were not kept. The last one: {self.last}"
        self.dropped, self.last = 0, ""
        return [_own(line, text)]


def within_limits(rows: Iterable[Row], steps: Mapping[int, StepExecution], change: Change) -> list[Row]:
    """The lines that are kept, with a line of our own where others are not.

    `steps` are those that the lines belong to; `change` sets the columns in which a step counts its output.
    """
    outputs: dict[int, _Output] = {}
    kept: list[Row] = []
    for line, text in rows:
        step = steps.get(line.step_id or 0)
        if step is None:
            kept.append((line, text))
            continue
        if step.pk not in outputs:
            outputs[step.pk] = _output_of(step)
        kept += outputs[step.pk].take(line, text)
    for pk, output in outputs.items():
        if output != _output_of(steps[pk]):
            change(steps[pk], log_bytes=output.kept, log_dropped=output.dropped, log_last_dropped=output.last)
    return kept


def _output_of(step: StepExecution) -> _Output:
    return _Output(step.log_bytes, step.log_dropped, step.log_last_dropped)


def _own(line: NewLine, text: str) -> Row:
    return replace(line, text=text, level="warning", origin=Origin.SLIPWAY), text
