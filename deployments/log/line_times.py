"""Lines of a log by their time, without reading the whole log."""

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import BinaryField
from django.db.models.functions import Substr

from deployments.log.lines import (
    BlockEntry,
    LogBlock,
    LogLine,
    decode_block,
    decompress,
    list_block_lines,
    to_microseconds,
)
from deployments.models import LogChunk

# Bytes of a stored block that contain the time of its first line, and the characters to unpack.
_HEAD_BYTES: Final = 512
_HEAD_CHARACTERS: Final = 80
_FIRST_TIME: Final = re.compile(rb'"at":\[(\d+)[,\]]')
# Blocks that one page may unpack: about 200,000 lines.
MOST_BLOCKS: Final = 200


@dataclass(frozen=True)
class LineReference:
    """Number of a line, and the identifier of its step."""

    number: int
    step: str = ""


@dataclass(frozen=True)
class LineRequest:
    """Search for the line at a time; `step` and the end of its text narrow it down, if such a line exists."""

    at: datetime
    step: str = ""
    text: str = ""

    def matches(self, entry: BlockEntry) -> bool:
        """Return whether a line has the step and the text of the request."""
        has_step = not self.step or entry.kind[0] == self.step
        return has_step and (not self.text or entry.text.rstrip().endswith(self.text))


@dataclass(frozen=True)
class _BlockHead:
    pk: int
    first: int
    last: int
    start: int


class LineIndex:
    """Index of the lines of a log by time: one query, and one for each call of `load`."""

    def __init__(self, execution_id: UUID) -> None:
        head = Substr("packed", 1, _HEAD_BYTES, output_field=BinaryField())
        rows = LogChunk.objects.filter(execution_id=execution_id).annotate(head=head).order_by("first")
        start = 0
        self._heads: list[_BlockHead] = []
        for pk, first, last, packed in rows.values_list("pk", "first", "last", "head"):
            # Times of lines never go back by much; an unreadable head counts as its predecessor.
            start = max(start, _read_first_time(bytes(packed)) or start)
            self._heads.append(_BlockHead(pk, first, last, start))
        self._starts = [head.start for head in self._heads]
        self._blocks: dict[int, LogBlock] = {}
        self._entries: dict[int, list[BlockEntry]] = {}

    def load_moments(self, requests: Iterable[LineRequest]) -> None:
        """Load the blocks that `find_line` needs for these requests, up to the limit."""
        self._load(number for request in requests for number in self._list_candidates(request.at))

    def load_spans(self, spans: Iterable[tuple[datetime, datetime]]) -> None:
        """Load the blocks with lines in these spans of time, up to the limit; one query."""
        self._load(
            position
            for start, end in spans
            for position in range(self._get_position(start), self._get_position(end) + 1)
        )

    def _load(self, positions: Iterable[int]) -> None:
        free = MOST_BLOCKS - len(self._blocks)
        heads = [
            self._heads[position] for position in dict.fromkeys(positions) if position < len(self._heads)
        ]
        keys = [head.pk for head in heads if head.pk not in self._blocks][:free]
        if not keys:
            return
        for chunk in LogChunk.objects.filter(pk__in=keys):
            self._blocks[chunk.pk] = LogBlock(chunk.first, chunk.last, decompress(chunk.packed))

    def find_line(self, request: LineRequest) -> LineReference | None:
        """Return the first line at or after the time, or the last one before; None for an empty log."""
        earliest = to_microseconds(request.at)
        fallback = None
        for position in self._list_candidates(request.at):
            head = self._heads[position]
            block = self._blocks.get(head.pk)
            if block is None:
                return LineReference(head.first)
            for number, entry in enumerate(self._decode(head.pk, block), block.first):
                if entry.at >= earliest and request.matches(entry):
                    return LineReference(number, entry.kind[0])
                if fallback is None or entry.at < earliest:
                    fallback = LineReference(number, entry.kind[0])
        return fallback

    def _decode(self, key: int, block: LogBlock) -> list[BlockEntry]:
        if key not in self._entries:
            self._entries[key] = decode_block(block.body)
        return self._entries[key]

    def list_lines(self, span: tuple[datetime, datetime]) -> list[LogLine]:
        """Return the loaded lines of the blocks in a span of time."""
        first, last = self._get_position(span[0]), self._get_position(span[1])
        blocks = (self._blocks.get(head.pk) for head in self._heads[first : last + 1])
        return [line for block in blocks if block for line in list_block_lines(block)]

    def _list_candidates(self, at: datetime) -> Sequence[int]:
        """Return the block with lines before and after the time, and the next one."""
        position = self._get_position(at)
        return range(position, min(position + 2, len(self._heads)))

    def _get_position(self, at: datetime) -> int:
        return max(0, bisect_right(self._starts, to_microseconds(at)) - 1)


def _read_first_time(packed: bytes) -> int | None:
    """Return the time of the first line from the first bytes of a stored block."""
    try:
        head = zlib.decompressobj().decompress(packed, _HEAD_CHARACTERS)
    except zlib.error:
        return None
    match = _FIRST_TIME.search(head)
    return int(match[1]) if match else None
