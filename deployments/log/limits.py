"""How much of a container's output a step keeps; Slipway's own lines are always kept."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deployments.log.lines import NewLine, Origin
from deployments.models import StepExecution

MOST_BYTES_PER_STEP = 100 * 1024 * 1024
# A line and its text as it is stored: cleaned, with secrets hidden.
Row = tuple[NewLine, str]


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


def within_limits(rows: Iterable[Row]) -> list[Row]:
    """The lines that are kept, with a line of our own where others are not; call inside the commit."""
    given = list(rows)
    ids = {line.step_id for line, _ in given if line.step_id is not None}
    found = StepExecution.objects.filter(pk__in=ids).values_list(
        "pk", "log_bytes", "log_dropped", "log_last_dropped"
    )
    before = {pk: _Output(kept, dropped, last) for pk, kept, dropped, last in found}
    outputs = {pk: replace(output) for pk, output in before.items()}
    kept: list[Row] = []
    for line, text in given:
        output = outputs.get(line.step_id or 0)
        kept += output.take(line, text) if output is not None else [(line, text)]
    for pk, output in outputs.items():
        if output != before[pk]:
            StepExecution.objects.filter(pk=pk).update(
                log_bytes=output.kept, log_dropped=output.dropped, log_last_dropped=output.last
            )
    return kept


def _own(line: NewLine, text: str) -> Row:
    return replace(line, text=text, level="warning", origin=Origin.SLIPWAY), text
