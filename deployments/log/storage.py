"""Storage of log lines: numbers, redaction, output limits, compaction and publishing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deployments.log.hidden import keep_hidden_lines
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
from guards.masks import EMPTY_MASK, HidingMask, SecretMask
from guards.metrics import LOG_LINES
from guards.text import sanitize_text, truncate_text
from web.live.publisher import publish

MOST_BYTES_PER_STEP = 100 * 1024 * 1024
# A line and its stored text: sanitized and redacted.
LimitedRow = tuple[NewLogLine, str]


class StepColumnChange(Protocol):
    """Function that sets columns of a step."""

    def __call__(self, row: StepExecution, /, **values: object) -> None: ...


@dataclass
class _StepOutput:
    """Output of one step: stored bytes, and the lines dropped since the last note about them."""

    stored_bytes: int
    dropped: int
    last: str

    def add(self, line: NewLogLine, text: str) -> list[LimitedRow]:
        """Return the lines to store for this line."""
        if line.resolved_origin is not LineOrigin.CONTAINER:
            return [*self._build_dropped_note(line), (line, text)]
        # Each line takes a row, also an empty one.
        size = len(text.encode()) + 1
        if self.dropped or self.stored_bytes + size > MOST_BYTES_PER_STEP:
            self.dropped, self.last = self.dropped + 1, text
            return [self._limit(line)] if self.dropped == 1 else []
        self.stored_bytes += size
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
    """Return the lines to store, with a note in place of dropped lines.

    `steps` are the steps of the lines; `change` sets the output counters of a step.
    """
    outputs: dict[int, _StepOutput] = {}
    stored: list[LimitedRow] = []
    for line, text in rows:
        step = steps.get(line.step_id or 0)
        if step is None:
            stored.append((line, text))
            continue
        if step.pk not in outputs:
            outputs[step.pk] = _get_output(step)
        stored += outputs[step.pk].add(line, text)
    for pk, output in outputs.items():
        if output != _get_output(steps[pk]):
            change(
                steps[pk],
                log_bytes=output.stored_bytes,
                log_dropped=output.dropped,
                log_last_dropped=output.last,
            )
    return stored


def _get_output(step: StepExecution) -> _StepOutput:
    return _StepOutput(step.log_bytes, step.log_dropped, step.log_last_dropped)


def _build_own_line(line: NewLogLine, text: str) -> LimitedRow:
    return replace(line, text=text, level="warning", origin=LineOrigin.SLIPWAY), text


def publish_log(execution_id: UUID, *messages: dict[str, Any]) -> None:
    """Publish messages to the viewers of this execution; delivery is not guaranteed."""
    publish(get_channel_group(execution_id), *messages)


def publish_blocks(execution_id: UUID, blocks: list[LogBlock]) -> None:
    """Publish new lines."""
    publish_log(
        execution_id,
        *(
            {"type": "log.block", "first": block.first, "last": block.last, "body": block.body}
            for block in blocks
        ),
    )


def get_channel_group(execution_id: UUID | str) -> str:
    """Return the channel group of an execution's viewers."""
    return f"execution.{execution_id}"


# Lines of a block that is not worth packing again.
_FULL = MOST_LINES // 4


def store_lines(execution_id: UUID, new: Sequence[NewLogLine], *, mask: SecretMask = EMPTY_MASK) -> None:
    """Redact, number and store lines inside their commit, and publish them after it.

    For callers that do not hold the rows of the execution; the engine uses `prepare_lines` and
    `append_lines`.
    """
    if not new:
        return
    ids = {line.step_id for line in new if line.step_id is not None}
    steps = StepExecution.objects.only("pk", "log_bytes", "log_dropped", "log_last_dropped").in_bulk(ids)
    rows = prepare_lines(new, mask=mask, steps=list(steps.values()), change=_update)
    if not rows:
        return
    if isinstance(mask, HidingMask):
        keep_hidden_lines(execution_id, new)
    Execution.objects.filter(pk=execution_id).update(next_line_number=F("next_line_number") + len(rows))
    first = Execution.objects.values_list("next_line_number", flat=True).get(pk=execution_id) - len(rows)
    for step_id, number in _first_of_each_step(rows, first).items():
        StepExecution.objects.filter(pk=step_id, first_line__isnull=True).update(first_line=number)
    append_lines(execution_id, first, rows)


def prepare_lines(
    new: Sequence[NewLogLine], *, mask: SecretMask, steps: Iterable[StepExecution], change: StepColumnChange
) -> list[LimitedRow]:
    """Return the lines in their stored form: sanitized, redacted, cut to their limits."""
    if not new:
        return []
    # Secrets are redacted before a long line is cut, which could leave half of one.
    texts = mask.mask_lines([sanitize_text(line.text) for line in new])
    by_id = {step.pk: step for step in steps}
    return apply_output_limits(zip(new, map(truncate_text, texts), strict=True), by_id, change)


def append_lines(execution_id: UUID, first: int, rows: Sequence[LimitedRow]) -> None:
    """Store prepared lines, numbered from `first` on; this commit has reserved the numbers."""
    blocks = encode_blocks(first, map(_build_entry, rows))
    LogChunk.objects.bulk_create(_build_chunk(execution_id, block, block.count >= _FULL) for block in blocks)
    if first // MOST_LINES != (first + len(rows)) // MOST_LINES:
        _pack_chunks(execution_id, keep_last=True)
    transaction.on_commit(lambda: publish_blocks(execution_id, blocks), robust=True)
    transaction.on_commit(lambda: LOG_LINES.inc(len(rows)), robust=True)


def _update(row: StepExecution, /, **values: Any) -> None:
    StepExecution.objects.filter(pk=row.pk).update(**values)


def compact_chunks(execution_id: UUID) -> None:
    """Pack the last small chunks of an ended execution."""
    with transaction.atomic():
        _pack_chunks(execution_id, keep_last=False)


def _build_entry(row: LimitedRow) -> BlockEntry:
    line, text = row
    return BlockEntry(
        to_microseconds(line.at), (line.step, line.unit, line.level, line.resolved_origin.value), text
    )


def _pack_chunks(execution_id: UUID, *, keep_last: bool) -> None:
    """Join the small chunks of several commits; with `keep_last` the last one stays open."""
    small = list(LogChunk.objects.filter(execution_id=execution_id, is_packed=False).order_by("first"))
    if len(small) < 2:
        return
    LogChunk.objects.filter(pk__in=[chunk.pk for chunk in small]).delete()
    joined = [block for run in _group_adjacent(small) for block in _join_chunks(run)]
    LogChunk.objects.bulk_create(
        _build_chunk(execution_id, block, not (keep_last and block is joined[-1])) for block in joined
    )


def _group_adjacent(chunks: list[LogChunk]) -> list[list[LogChunk]]:
    """Return groups of chunks that follow each other without a packed one in between."""
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


def _build_chunk(execution_id: UUID, block: LogBlock, is_packed: bool) -> LogChunk:
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
