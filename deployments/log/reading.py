"""Reads lines back: as blocks for the page, as lines for programs."""

from collections.abc import Iterator
from uuid import UUID

from deployments.log.blocks import Block, decompress, lines_of
from deployments.log.lines import Line
from deployments.models import LogChunk

PAGE = 1000


def blocks_after(execution_id: UUID, after: int, *, most_bytes: int) -> list[Block]:
    """Blocks from the one that holds line `after` + 1 on: at least one, and then up to `most_bytes`."""
    found: list[Block] = []
    size = 0
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks.iterator(chunk_size=8):
        body = decompress(chunk.packed)
        size += len(body.encode())
        if found and size > most_bytes:
            break
        found.append(Block(chunk.first, chunk.last, body))
    return found


def read_lines(execution_id: UUID, *, after: int = 0, limit: int = PAGE) -> list[Line]:
    """At most `limit` lines with numbers above `after`, in order."""
    found: list[Line] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks[:limit].iterator(chunk_size=50):
        found += [line for line in _lines(chunk) if line["number"] > after]
        if len(found) >= limit:
            break
    return found[:limit]


def all_lines(execution_id: UUID) -> Iterator[Line]:
    """Every line of an execution, chunk by chunk."""
    for chunk in LogChunk.objects.filter(execution_id=execution_id).order_by("first").iterator(chunk_size=20):
        yield from _lines(chunk)


def _lines(chunk: LogChunk) -> list[Line]:
    return lines_of(Block(chunk.first, chunk.last, decompress(chunk.packed)))
