"""The log of an execution: lines are cleaned, numbered and stored, then told to whoever watches."""

import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.db.models import F

from deployments.models import Execution, LogChunk, StepExecution

LONGEST_LINE = 16_384
PAGE = 1000
_KEPT_CONTROLS = "\t\x1b"
logger = logging.getLogger(__name__)


class Line(TypedDict):
    """One line as the page and the API show it; `number` counts from 1 per execution."""

    number: int
    at: str
    step: str
    unit: str
    level: str
    text: str


@dataclass(frozen=True)
class NewLine:
    """A line on its way into the log."""

    at: datetime
    step_id: int | None
    step: str
    unit: str
    level: str
    text: str


def store(execution_id: UUID, new: Sequence[NewLine]) -> list[Line]:
    """Number and store lines; call inside the fenced commit they belong to. Watchers hear on commit."""
    if not new:
        return []
    Execution.objects.filter(pk=execution_id).update(log_next=F("log_next") + len(new))
    after = Execution.objects.values_list("log_next", flat=True).get(pk=execution_id)
    first = after - len(new)
    lines = [_numbered(line, first + index) for index, line in enumerate(new)]
    LogChunk.objects.create(execution_id=execution_id, first=first, last=after - 1, lines=lines)
    for step_id, number in _first_of_each_step(new, first).items():
        StepExecution.objects.filter(pk=step_id, first_line__isnull=True).update(first_line=number)
    transaction.on_commit(lambda: tell(execution_id, {"type": "log.lines", "lines": lines}), robust=True)
    return lines


def tell(execution_id: UUID, message: dict[str, object]) -> None:
    """Send a message to whoever watches this execution; nobody depends on its arrival."""
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(group_of(execution_id), message)
    except OSError as error:
        logger.warning("Watchers of %s were not told: %s", execution_id, error)


def group_of(execution_id: UUID | str) -> str:
    """The channel group of those who watch an execution."""
    return f"execution.{execution_id}"


def read_lines(execution_id: UUID, *, after: int = 0, limit: int = PAGE) -> list[Line]:
    """At most `limit` lines with numbers above `after`, in order."""
    found: list[Line] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks[:limit].iterator(chunk_size=50):
        found += [line for line in lines_of(chunk) if line["number"] > after]
        if len(found) >= limit:
            break
    return found[:limit]


def all_lines(execution_id: UUID) -> Iterator[Line]:
    """Every line of an execution, chunk by chunk."""
    for chunk in LogChunk.objects.filter(execution_id=execution_id).order_by("first").iterator(chunk_size=20):
        yield from lines_of(chunk)


def lines_of(chunk: LogChunk) -> list[Line]:
    """The lines of a chunk, packed or not."""
    lines: list[Line] = json.loads(zlib.decompress(chunk.packed)) if chunk.packed else chunk.lines
    return lines


def compact(execution_id: UUID) -> None:
    """Pack all chunks of an ended execution into compressed ones of about a thousand lines."""
    with transaction.atomic():
        small = list(LogChunk.objects.filter(execution_id=execution_id, packed=b"").order_by("first"))
        if len(small) < 2:
            return
        lines = [line for chunk in small for line in chunk.lines]
        LogChunk.objects.filter(pk__in=[chunk.pk for chunk in small]).delete()
        LogChunk.objects.bulk_create(
            _packed(execution_id, lines[start : start + PAGE]) for start in range(0, len(lines), PAGE)
        )


def clean(text: str) -> str:
    """A text without what could break a terminal, a page or PostgreSQL; colours (SGR) stay."""
    kept = (
        char if char in _KEPT_CONTROLS or (char >= " " and not "\x7f" <= char <= "\x9f") else "\ufffd"
        for char in text.encode("utf-8", "replace").decode("utf-8").replace("\n", " ")
    )
    cleaned = "".join(kept)
    if len(cleaned) <= LONGEST_LINE:
        return cleaned
    return f"{cleaned[:LONGEST_LINE]} … (cut, {len(cleaned)} characters)"


def _numbered(line: NewLine, number: int) -> Line:
    return {
        "number": number,
        "at": line.at.isoformat(),
        "step": line.step,
        "unit": line.unit,
        "level": line.level,
        "text": clean(line.text),
    }


def _first_of_each_step(new: Sequence[NewLine], first: int) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for index, line in enumerate(new):
        if line.step_id is not None:
            numbers.setdefault(line.step_id, first + index)
    return numbers


def _packed(execution_id: UUID, lines: list[Line]) -> LogChunk:
    return LogChunk(
        execution_id=execution_id,
        first=lines[0]["number"],
        last=lines[-1]["number"],
        lines=[],
        packed=zlib.compress(json.dumps(lines).encode(), 6),
    )
