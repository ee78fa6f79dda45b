"""Queries of a stored log: pages of lines, blocks, and search."""

import json
import re
from collections.abc import Iterator
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


def read_last_lines(execution_id: UUID, last: int, *, limit: int, most_characters: int) -> list[LogLine]:
    """Return the lines up to `last` for a page without scripts: no colors, long lines cut."""
    lines = read_lines(execution_id, after=max(0, last - limit), limit=limit)
    return [{**line, "text": _format_plain(line["text"], most_characters)} for line in lines]


def _format_plain(text: str, most_characters: int) -> str:
    plain = _CONTROL.sub(_format_control, strip_escape_sequences(text))
    return plain if len(plain) <= most_characters else f"{plain[: most_characters - 1]}…"


def _format_control(match: re.Match[str]) -> str:
    return f"\u27e8U+{ord(match[0]):04X}\u27e9"


def iterate_lines(execution_id: UUID) -> Iterator[LogLine]:
    """Yield every line of an execution, chunk by chunk."""
    for chunk in LogChunk.objects.filter(execution_id=execution_id).order_by("first").iterator(chunk_size=20):
        yield from _decode_lines(chunk)


def _decode_lines(chunk: LogChunk) -> list[LogLine]:
    return list_block_lines(LogBlock(chunk.first, chunk.last, decompress(chunk.packed)))


MOST_NUMBERS = 5_000
# About a hundred thousand lines, searched in about 60 ms.
MOST_CHUNKS = 250
# Of the control characters, stored lines have only escapes; text direction marks could reorder a line.
_CONTROL = re.compile("[\x1b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


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
