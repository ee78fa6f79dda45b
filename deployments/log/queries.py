"""Queries of a stored log: pages of lines, blocks, and search."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from json.encoder import encode_basestring
from uuid import UUID

from deployments.log.lines import LogBlock, LogLine, decompress, list_block_lines
from deployments.models import LogChunk
from guards.text import strip_escape_sequences

PAGE_LINES = 1000


def list_blocks(execution_id: UUID, after: int, *, most_bytes: int) -> list[LogBlock]:
    """Return blocks from line `after` + 1 on: at least one, and further ones up to `most_bytes`."""
    blocks: list[LogBlock] = []
    size = 0
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks.iterator(chunk_size=8):
        body = decompress(chunk.packed)
        size += len(body.encode())
        if blocks and size > most_bytes:
            break
        blocks.append(LogBlock(chunk.first, chunk.last, body))
    return blocks


def read_lines(execution_id: UUID, *, after: int = 0, limit: int = PAGE_LINES) -> list[LogLine]:
    """Return at most `limit` lines with numbers above `after`, in order."""
    lines: list[LogLine] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks[:limit].iterator(chunk_size=50):
        lines += [line for line in _decode_lines(chunk) if line["number"] > after]
        if len(lines) >= limit:
            break
    return lines[:limit]


def read_numbered_lines(execution_id: UUID, numbers: Collection[int]) -> list[LogLine]:
    """Return the lines with these numbers, in order; only their chunks are decompressed."""
    if not numbers:
        return []
    in_order = sorted(set(numbers))
    chunks = LogChunk.objects.filter(
        execution_id=execution_id, last__gte=in_order[0], first__lte=in_order[-1]
    )
    keys = [
        pk
        for pk, first, last in chunks.values_list("pk", "first", "last")
        if bisect_left(in_order, first) < bisect_right(in_order, last)
    ]
    rows = LogChunk.objects.filter(pk__in=keys).order_by("first")
    return [line for chunk in rows for line in _decode_lines(chunk) if line["number"] in in_order]


def iterate_lines(execution_id: UUID) -> Iterator[LogLine]:
    """Yield every line of an execution, chunk by chunk."""
    for chunk in LogChunk.objects.filter(execution_id=execution_id).order_by("first").iterator(chunk_size=20):
        yield from _decode_lines(chunk)


def _decode_lines(chunk: LogChunk) -> list[LogLine]:
    return list_block_lines(LogBlock(chunk.first, chunk.last, decompress(chunk.packed)))


MOST_NUMBERS = 5_000
# About a hundred thousand lines, searched in about 60 ms.
MOST_CHUNKS = 250
# A page searches about eight hundred thousand lines, which takes about half a second.
MOST_SEARCHES = 8


@dataclass(frozen=True)
class LineFilter:
    """Conditions of a search; a line must meet all of them."""

    text: str = ""
    match_case: bool = False
    levels: frozenset[str] = field(default_factory=frozenset)
    origin: str = ""
    step: str = ""

    def matches_kind(self, step: str, level: str, origin: str) -> bool:
        """Return whether a line of this kind can match."""
        return (
            (not self.levels or level in self.levels)
            and (not self.origin or origin == self.origin)
            and (not self.step or step == self.step)
        )

    def normalize(self, text: str) -> str:
        """Return a text in the form used for comparison."""
        return text if self.match_case else text.lower()


@dataclass(frozen=True)
class LineMatches:
    """Numbers of matching lines in order; `next` is the `after` of the next call, None at the end."""

    numbers: list[int]
    next: int | None


def search_lines(execution_id: UUID, line_filter: LineFilter, *, after: int = 0) -> LineMatches:
    """Return the matching lines above `after`; one call reads 250 chunks or finds 5,000 lines."""
    numbers: list[int] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for index, chunk in enumerate(chunks[: MOST_CHUNKS + 1].iterator(chunk_size=20)):
        if index == MOST_CHUNKS or len(numbers) >= MOST_NUMBERS:
            return LineMatches(numbers, chunk.first - 1)
        numbers += [
            number for number in _search_body(decompress(chunk.packed), line_filter) if number > after
        ]
    return LineMatches(numbers, None)


def search_for_page(execution_id: UUID, line_filter: LineFilter, *, after: int = 0) -> LineMatches:
    """Return the matches above `after` of as many searches as one page may take."""
    numbers: list[int] = []
    for _ in range(MOST_SEARCHES):
        matches = search_lines(execution_id, line_filter, after=after)
        numbers += matches.numbers
        if matches.next is None or len(numbers) >= MOST_NUMBERS:
            return LineMatches(numbers, matches.next)
        after = matches.next
    return LineMatches(numbers, after)


def _search_body(body: str, line_filter: LineFilter) -> list[int]:
    needle = line_filter.normalize(line_filter.text)
    if needle and not _may_match(body, needle, line_filter):
        return []
    columns = json.loads(body)
    kinds = chain.from_iterable(
        repeat(line_filter.matches_kind(step, level, origin), count)
        for count, step, _unit, level, origin in columns["kinds"]
    )
    return [
        number
        for number, (is_match, text) in enumerate(zip(kinds, columns["texts"], strict=True), columns["first"])
        if is_match and (not needle or needle in line_filter.normalize(strip_escape_sequences(text)))
    ]


def _may_match(body: str, needle: str, line_filter: LineFilter) -> bool:
    """Return whether a block may match, by its JSON text; colors may split a word."""
    return "\\u001b" in body or encode_basestring(needle)[1:-1] in line_filter.normalize(body)
