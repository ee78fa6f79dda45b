"""Queries over a stored log: pages of lines, blocks, and search."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat
from json.encoder import encode_basestring
from uuid import UUID

from deployments.log.lines import LogBlock, LogLine, decompress, list_block_lines
from deployments.models import LogChunk

PAGE_LINES = 1000


def list_blocks(execution_id: UUID, after: int, *, most_bytes: int) -> list[LogBlock]:
    """Blocks from the one that holds line `after` + 1 on: at least one, and then up to `most_bytes`."""
    found: list[LogBlock] = []
    size = 0
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks.iterator(chunk_size=8):
        body = decompress(chunk.packed)
        size += len(body.encode())
        if found and size > most_bytes:
            break
        found.append(LogBlock(chunk.first, chunk.last, body))
    return found


def read_lines(execution_id: UUID, *, after: int = 0, limit: int = PAGE_LINES) -> list[LogLine]:
    """At most `limit` lines with numbers above `after`, in order."""
    found: list[LogLine] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for chunk in chunks[:limit].iterator(chunk_size=50):
        found += [line for line in _lines(chunk) if line["number"] > after]
        if len(found) >= limit:
            break
    return found[:limit]


def iterate_lines(execution_id: UUID) -> Iterator[LogLine]:
    """Yield every line of an execution, chunk by chunk."""
    for chunk in LogChunk.objects.filter(execution_id=execution_id).order_by("first").iterator(chunk_size=20):
        yield from _lines(chunk)


def _lines(chunk: LogChunk) -> list[LogLine]:
    return list_block_lines(LogBlock(chunk.first, chunk.last, decompress(chunk.packed)))


MOST_NUMBERS = 5_000
# About a hundred thousand lines, which takes some 60 ms.
MOST_CHUNKS = 250
# As the page shows them: what stands in an escape sequence cannot be found.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")


@dataclass(frozen=True)
class LineFilter:
    """What a line must be: every condition that is given holds."""

    text: str = ""
    match_case: bool = False
    levels: frozenset[str] = field(default_factory=frozenset)
    origin: str = ""
    step: str = ""

    def is_said_by(self, step: str, level: str, origin: str) -> bool:
        """Return whether a line of this kind can be meant."""
        return (
            (not self.levels or level in self.levels)
            and (not self.origin or origin == self.origin)
            and (not self.step or step == self.step)
        )

    def folded(self, text: str) -> str:
        """Return a text as it is compared."""
        return text if self.match_case else text.lower()


@dataclass(frozen=True)
class LineMatches:
    """Numbers of lines in order; `next` is where to go on after, None at the end of the log."""

    numbers: list[int]
    next: int | None


def search_lines(execution_id: UUID, wanted: LineFilter, *, after: int = 0) -> LineMatches:
    """Return the lines above `after` that are wanted, as far as one call looks: 250 chunks or 5,000 lines."""
    numbers: list[int] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for seen, chunk in enumerate(chunks[: MOST_CHUNKS + 1].iterator(chunk_size=20)):
        if seen == MOST_CHUNKS or len(numbers) >= MOST_NUMBERS:
            return LineMatches(numbers, chunk.first - 1)
        numbers += [number for number in _search_body(decompress(chunk.packed), wanted) if number > after]
    return LineMatches(numbers, None)


def _search_body(body: str, wanted: LineFilter) -> list[int]:
    needle = wanted.folded(wanted.text)
    if needle and not _may_match(body, needle, wanted):
        return []
    columns = json.loads(body)
    kinds = chain.from_iterable(
        repeat(wanted.is_said_by(step, level, origin), count)
        for count, step, _unit, level, origin in columns["kinds"]
    )
    return [
        number
        for number, (is_meant, text) in enumerate(zip(kinds, columns["texts"], strict=True), columns["first"])
        if is_meant and (not needle or needle in wanted.folded(_strip_sequences(text)))
    ]


def _may_match(body: str, needle: str, wanted: LineFilter) -> bool:
    """Return a look at the JSON as a whole rules most blocks out; colours can stand inside a word."""
    return "\\u001b" in body or encode_basestring(needle)[1:-1] in wanted.folded(body)


def _strip_sequences(text: str) -> str:
    return _SEQUENCE.sub("", text) if "\x1b" in text else text
