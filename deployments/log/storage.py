"""Storage of log lines: numbers, redaction, output limits, compaction and publishing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deployments.log.lines import (
    MOST_LINES,
    BlockEntry,
    LineOrigin,
    LogBlock,
    NewLogLine,
    compress,
    decode_block,
    decompress,
    encode_blocks,
    to_microseconds,
)
from deployments.models import Execution, LogChunk, StepExecution
from guards.masks import EMPTY_MASK, SecretMask
from guards.text import sanitize_text, truncate_text
from web.live.publisher import publish

MOST_BYTES_PER_STEP = 100 * 1024 * 1024
# A line and its text as it is stored: cleaned, with secrets hidden.
LimitedRow = tuple[NewLogLine, str]


class StepColumnChange(Protocol):
    """Sets columns of a step."""

    def __call__(self, row: StepExecution, /, **values: object) -> None: ...


@dataclass
class _StepOutput:
    """The output of one step so far: bytes kept, and what was left out since that was last said."""

    kept: int
    dropped: int
    last: str

    def take(self, line: NewLogLine, text: str) -> list[LimitedRow]:
        """What the log gets instead of this line."""
        if line.said_by is not LineOrigin.CONTAINER:
            return [*self._build_dropped_note(line), (line, text)]
        size = len(text)
        if self.dropped or self.kept + size > MOST_BYTES_PER_STEP:
            self.dropped, self.last = self.dropped + 1, text
            return [self._limit(line)] if self.dropped == 1 else []
        self.kept += size
        return [(line, text)]

    def _limit(self, line: NewLogLine) -> LimitedRow:
        return _build_own_line(
            line,
            f"The output of this step is longer than {MOST_BYTES_PER_STEP // 1024 // 1024} MiB: "
            "from here on its lines are counted and not kept.",
        )

    def _build_dropped_note(self, line: NewLogLine) -> list[LimitedRow]:
        if not self.dropped:
            return []
        text = f"{self.dropped:,} lines of output were not kept. The last one: {self.last}"
        self.dropped, self.last = 0, ""
        return [_build_own_line(line, text)]


def apply_output_limits(
    rows: Iterable[LimitedRow], steps: Mapping[int, StepExecution], change: StepColumnChange
) -> list[LimitedRow]:
    """Return the lines that are kept, with a line of our own where others are not.

    `steps` are those that the lines belong to; `change` sets the columns in which a step counts its output.
    """
    outputs: dict[int, _StepOutput] = {}
    kept: list[LimitedRow] = []
    for line, text in rows:
        step = steps.get(line.step_id or 0)
        if step is None:
            kept.append((line, text))
            continue
        if step.pk not in outputs:
            outputs[step.pk] = _get_output(step)
        kept += outputs[step.pk].take(line, text)
    for pk, output in outputs.items():
        if output != _get_output(steps[pk]):
            change(steps[pk], log_bytes=output.kept, log_dropped=output.dropped, log_last_dropped=output.last)
    return kept


def _get_output(step: StepExecution) -> _StepOutput:
    return _StepOutput(step.log_bytes, step.log_dropped, step.log_last_dropped)


def _build_own_line(line: NewLogLine, text: str) -> LimitedRow:
    return replace(line, text=text, level="warning", origin=LineOrigin.SLIPWAY), text


def publish_log(execution_id: UUID, *messages: dict[str, Any]) -> None:
    """Send messages to whoever watches this execution; nobody depends on their arrival."""
    publish(get_channel_group(execution_id), *messages)


def publish_blocks(execution_id: UUID, blocks: list[LogBlock]) -> None:
    """Send new lines."""
    publish_log(
        execution_id,
        *({"type": "log.block", "first": one.first, "last": one.last, "body": one.body} for one in blocks),
    )


def get_channel_group(execution_id: UUID | str) -> str:
    """Return the channel group of those who watch an execution."""
    return f"execution.{execution_id}"


# A block of this many lines gains nothing from being packed again.
_FULL = MOST_LINES // 4


def store_lines(execution_id: UUID, new: Sequence[NewLogLine], *, mask: SecretMask = EMPTY_MASK) -> None:
    """Mask, number and store lines; inside the commit they belong to. Watchers hear of them on commit.

    For whoever does not hold the rows of the execution; the engine prepares and appends lines by itself.
    """
    if not new:
        return
    ids = {line.step_id for line in new if line.step_id is not None}
    steps = StepExecution.objects.only("pk", "log_bytes", "log_dropped", "log_last_dropped").in_bulk(ids)
    rows = prepare_lines(new, mask=mask, steps=list(steps.values()), change=_update)
    if not rows:
        return
    Execution.objects.filter(pk=execution_id).update(next_line_number=F("next_line_number") + len(rows))
    first = Execution.objects.values_list("next_line_number", flat=True).get(pk=execution_id) - len(rows)
    for step_id, number in _first_of_each_step(rows, first).items():
        StepExecution.objects.filter(pk=step_id, first_line__isnull=True).update(first_line=number)
    append_lines(execution_id, first, rows)


def prepare_lines(
    new: Sequence[NewLogLine], *, mask: SecretMask, steps: Iterable[StepExecution], change: StepColumnChange
) -> list[LimitedRow]:
    """Return the lines as they are stored: cleaned, secrets hidden, cut to their limits."""
    if not new:
        return []
    # A secret is hidden before a long line is cut, which could leave half of it.
    texts = mask.mask_lines([sanitize_text(line.text) for line in new])
    by_id = {step.pk: step for step in steps}
    return apply_output_limits(zip(new, map(truncate_text, texts), strict=True), by_id, change)


def append_lines(execution_id: UUID, first: int, rows: Sequence[LimitedRow]) -> None:
    """Store prepared lines whose numbers, from `first` on, this commit has taken."""
    blocks = encode_blocks(first, map(_entry, rows))
    LogChunk.objects.bulk_create(_chunk(execution_id, block, block.count >= _FULL) for block in blocks)
    if first // MOST_LINES != (first + len(rows)) // MOST_LINES:
        _pack(execution_id, keep_last=True)
    transaction.on_commit(lambda: publish_blocks(execution_id, blocks), robust=True)


def _update(row: StepExecution, /, **values: Any) -> None:
    StepExecution.objects.filter(pk=row.pk).update(**values)


def compact_chunks(execution_id: UUID) -> None:
    """Pack the last small chunks of an execution that has ended."""
    with transaction.atomic():
        _pack(execution_id, keep_last=False)


def _entry(row: LimitedRow) -> BlockEntry:
    line, text = row
    return BlockEntry(to_microseconds(line.at), (line.step, line.unit, line.level, line.said_by.value), text)


def _pack(execution_id: UUID, *, keep_last: bool) -> None:
    """Join chunks that one commit each has left; the last one stays open for what comes."""
    small = list(LogChunk.objects.filter(execution_id=execution_id, is_packed=False).order_by("first"))
    if len(small) < 2:
        return
    LogChunk.objects.filter(pk__in=[chunk.pk for chunk in small]).delete()
    joined = [block for run in _group_adjacent(small) for block in _join_chunks(run)]
    LogChunk.objects.bulk_create(
        _chunk(execution_id, block, not (keep_last and block is joined[-1])) for block in joined
    )


def _group_adjacent(chunks: list[LogChunk]) -> list[list[LogChunk]]:
    """Chunks that follow on each other without one that is packed already in between."""
    runs: list[list[LogChunk]] = []
    for chunk in chunks:
        if runs and runs[-1][-1].last + 1 == chunk.first:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def _join_chunks(run: list[LogChunk]) -> list[LogBlock]:
    return encode_blocks(
        run[0].first, (entry for chunk in run for entry in decode_block(decompress(chunk.packed)))
    )


def _chunk(execution_id: UUID, block: LogBlock, is_packed: bool) -> LogChunk:
    return LogChunk(
        execution_id=execution_id,
        first=block.first,
        last=block.last,
        packed=compress(block, 6 if is_packed else 1),
        is_packed=is_packed,
    )


def _first_of_each_step(rows: Sequence[LimitedRow], first: int) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for index, (line, _) in enumerate(rows):
        if line.step_id is not None:
            numbers.setdefault(line.step_id, first + index)
    return numbers
