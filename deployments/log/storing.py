"""Writes lines: numbered in the commit that they belong to, packed together while the log grows."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deployments.log.blocks import (
    MOST_LINES,
    Block,
    Entry,
    compress,
    decode,
    decompress,
    encode,
    microseconds,
)
from deployments.log.limits import Change, Row, within_limits
from deployments.log.lines import NewLine
from deployments.log.telling import tell_blocks
from deployments.models import Execution, LogChunk, StepExecution
from guards.masks import NOTHING_SECRET, Mask
from guards.text import clean, cut

# A block of this many lines gains nothing from being packed again.
_FULL = MOST_LINES // 4


def store(execution_id: UUID, new: Sequence[NewLine], *, mask: Mask = NOTHING_SECRET) -> None:
    """Mask, number and store lines; inside the commit they belong to. Watchers hear of them on commit.

    For whoever does not hold the rows of the execution; the engine prepares and appends lines by itself.
    """
    if not new:
        return
    ids = {line.step_id for line in new if line.step_id is not None}
    steps = StepExecution.objects.only("pk", "log_bytes", "log_dropped", "log_last_dropped").in_bulk(ids)
    rows = prepare(new, mask=mask, steps=list(steps.values()), change=_update)
    if not rows:
        return
    Execution.objects.filter(pk=execution_id).update(log_next=F("log_next") + len(rows))
    first = Execution.objects.values_list("log_next", flat=True).get(pk=execution_id) - len(rows)
    for step_id, number in _first_of_each_step(rows, first).items():
        StepExecution.objects.filter(pk=step_id, first_line__isnull=True).update(first_line=number)
    append(execution_id, first, rows)


def prepare(
    new: Sequence[NewLine], *, mask: Mask, steps: Iterable[StepExecution], change: Change
) -> list[Row]:
    """The lines as they are stored: cleaned, secrets hidden, cut to their limits."""
    if not new:
        return []
    # A secret is hidden before a long line is cut, which could leave half of it.
    texts = mask.texts([clean(line.text) for line in new])
    by_id = {step.pk: step for step in steps}
    return within_limits(zip(new, map(cut, texts), strict=True), by_id, change)


def append(execution_id: UUID, first: int, rows: Sequence[Row]) -> None:
    """Store prepared lines whose numbers, from `first` on, this commit has taken."""
    blocks = encode(first, map(_entry, rows))
    LogChunk.objects.bulk_create(_chunk(execution_id, block, block.count >= _FULL) for block in blocks)
    if first // MOST_LINES != (first + len(rows)) // MOST_LINES:
        _pack(execution_id, keep_last=True)
    transaction.on_commit(lambda: tell_blocks(execution_id, blocks), robust=True)


def _update(row: StepExecution, /, **values: Any) -> None:
    StepExecution.objects.filter(pk=row.pk).update(**values)


def compact(execution_id: UUID) -> None:
    """Pack the last small chunks of an execution that has ended."""
    with transaction.atomic():
        _pack(execution_id, keep_last=False)


def _entry(row: Row) -> Entry:
    line, text = row
    return Entry(microseconds(line.at), (line.step, line.unit, line.level, line.said_by.value), text)


def _pack(execution_id: UUID, *, keep_last: bool) -> None:
    """Join chunks that one commit each has left; the last one stays open for what comes."""
    small = list(LogChunk.objects.filter(execution_id=execution_id, is_packed=False).order_by("first"))
    if len(small) < 2:
        return
    LogChunk.objects.filter(pk__in=[chunk.pk for chunk in small]).delete()
    joined = [block for run in _runs(small) for block in _joined(run)]
    LogChunk.objects.bulk_create(
        _chunk(execution_id, block, not (keep_last and block is joined[-1])) for block in joined
    )


def _runs(chunks: list[LogChunk]) -> list[list[LogChunk]]:
    """Chunks that follow on each other without one that is packed already in between."""
    runs: list[list[LogChunk]] = []
    for chunk in chunks:
        if runs and runs[-1][-1].last + 1 == chunk.first:
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return runs


def _joined(run: list[LogChunk]) -> list[Block]:
    return encode(run[0].first, (entry for chunk in run for entry in decode(decompress(chunk.packed))))


def _chunk(execution_id: UUID, block: Block, is_packed: bool) -> LogChunk:
    return LogChunk(
        execution_id=execution_id,
        first=block.first,
        last=block.last,
        packed=compress(block, 6 if is_packed else 1),
        is_packed=is_packed,
    )


def _first_of_each_step(rows: Sequence[Row], first: int) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for index, (line, _) in enumerate(rows):
        if line.step_id is not None:
            numbers.setdefault(line.step_id, first + index)
    return numbers
