"""Log lines, and the compressed blocks that store consecutive lines."""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import accumulate, groupby
from json.encoder import encode_basestring
from typing import TypedDict


class LineOrigin(StrEnum):
    """Origin of a line."""

    SLIPWAY = "slipway"
    AWS = "aws"
    CONTAINER = "container"


class LogLine(TypedDict):
    """Line in the API; `number` counts from 1 per execution, `at` is UTC in ISO 8601."""

    number: int
    at: str
    step: str
    unit: str
    level: str
    origin: str
    text: str


@dataclass(frozen=True)
class NewLogLine:
    """Line that is not stored yet."""

    at: datetime
    step_id: int | None
    step: str
    unit: str
    level: str
    text: str
    origin: LineOrigin | None = None

    @property
    def resolved_origin(self) -> LineOrigin:
        """Return the origin; the default is AWS for an event and Slipway for other lines."""
        return self.origin or (LineOrigin.AWS if self.level == "event" else LineOrigin.SLIPWAY)


MOST_LINES = 1000
# A frame has at least one block, and browser sockets accept 64 KiB.
MOST_BLOCK_BYTES = 48 * 1024
_LINE_OVERHEAD = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LineKind = tuple[str, str, str, str]


@dataclass(frozen=True)
class BlockEntry:
    """One line of a block: microseconds since 1970, (step, unit, level, origin), and the text."""

    at: int
    kind: LineKind
    text: str


@dataclass(frozen=True)
class LogBlock:
    """Consecutive lines; `body` is their JSON."""

    first: int
    last: int
    body: str

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def to_microseconds(moment: datetime) -> int:
    """Return a time as microseconds since 1970, UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def encode_blocks(first: int, entries: Iterable[BlockEntry]) -> list[LogBlock]:
    """Return entries as blocks of at most a thousand lines and about 48 KiB, numbered from `first`."""
    blocks = []
    for entries_of_block, texts in _split_entries(entries):
        blocks.append(
            LogBlock(first, first + len(entries_of_block) - 1, _encode_body(first, entries_of_block, texts))
        )
        first += len(entries_of_block)
    return blocks


def decode_block(body: str) -> list[BlockEntry]:
    """Return the entries of a block."""
    columns = json.loads(body)
    kinds = [tuple(names) for count, *names in columns["kinds"] for _ in range(count)]
    rows = zip(accumulate(columns["at"]), kinds, columns["texts"], strict=True)
    return [BlockEntry(at, kind, text) for at, kind, text in rows]


def list_block_lines(block: LogBlock) -> list[LogLine]:
    """Return the lines of a block as the API shows them."""
    return [_build_line(number, entry) for number, entry in enumerate(decode_block(block.body), block.first)]


def compress(block: LogBlock, level: int = 1) -> bytes:
    """Return the stored form of the body."""
    return zlib.compress(block.body.encode(), level)


def decompress(packed: bytes | memoryview) -> str:
    """Return the body of a stored block."""
    return zlib.decompress(packed).decode()


def _split_entries(entries: Iterable[BlockEntry]) -> Iterator[tuple[list[BlockEntry], list[str]]]:
    part: list[BlockEntry] = []
    texts: list[str] = []
    size = 0
    for entry in entries:
        text = encode_basestring(entry.text)
        added_size = (len(text) if text.isascii() else len(text.encode())) + _LINE_OVERHEAD
        if part and (size + added_size > MOST_BLOCK_BYTES or len(part) == MOST_LINES):
            yield part, texts
            part, texts, size = [], [], 0
        part.append(entry)
        texts.append(text)
        size += added_size
    if part:
        yield part, texts


def _encode_body(first: int, part: Sequence[BlockEntry], texts: Sequence[str]) -> str:
    times = [part[0].at, *(late.at - early.at for early, late in zip(part, part[1:], strict=False))]
    kinds = [[len(list(same)), *kind] for kind, same in groupby(part, key=lambda entry: entry.kind)]
    at, kinds_json = ",".join(map(str, times)), json.dumps(kinds, ensure_ascii=False, separators=(",", ":"))
    return f'{{"first":{first},"at":[{at}],"kinds":{kinds_json},"texts":[{",".join(texts)}]}}'


def _build_line(number: int, entry: BlockEntry) -> LogLine:
    step, unit, level, origin = entry.kind
    return {
        "number": number,
        "at": (_EPOCH + entry.at * _MICROSECOND).isoformat(),
        "step": step,
        "unit": unit,
        "level": level,
        "origin": origin,
        "text": entry.text,
    }
