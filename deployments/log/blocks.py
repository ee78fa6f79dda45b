"""Blocks of consecutive lines: the text that is stored, compressed, and sent to browsers as it is.

A block is JSON of columns: `{"first": 41, "at": [µs, +µs, …], "kinds": [[count, step, unit, level,
origin], …], "texts": […]}`. It is made once, when lines are stored, and never again for a viewer.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby
from json.encoder import encode_basestring

from deployments.log.lines import Line

MOST_LINES = 1000
# A frame holds at least one block, and the sockets of browsers take 64 KiB.
MOST_BYTES = 48 * 1024
_LINE_EXTRA = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
Kind = tuple[str, str, str, str]


@dataclass(frozen=True)
class Entry:
    """One line of a block: microseconds since 1970, (step, unit, level, origin), and the text."""

    at: int
    kind: Kind
    text: str


@dataclass(frozen=True)
class Block:
    """Consecutive lines; `body` is their JSON."""

    first: int
    last: int
    body: str

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970, UTC."""
    return (moment - _EPOCH) // _MICROSECOND


def encode(first: int, entries: Iterable[Entry]) -> list[Block]:
    """Entries as blocks of at most a thousand lines and about 48 KiB, numbered from `first`."""
    blocks = []
    for part, texts in _parts(entries):
        blocks.append(Block(first, first + len(part) - 1, _body(first, part, texts)))
        first += len(part)
    return blocks


def decode(body: str) -> list[Entry]:
    """The entries of a block."""
    columns = json.loads(body)
    kinds = [tuple(names) for count, *names in columns["kinds"] for _ in range(count)]
    rows = zip(accumulate(columns["at"]), kinds, columns["texts"], strict=True)
    return [Entry(at, kind, text) for at, kind, text in rows]


def lines_of(block: Block) -> list[Line]:
    """The lines of a block as the API shows them."""
    return [_line(number, entry) for number, entry in enumerate(decode(block.body), block.first)]


def compress(block: Block, level: int = 1) -> bytes:
    """The body as it lies in the database."""
    return zlib.compress(block.body.encode(), level)


def decompress(packed: bytes | memoryview) -> str:
    """The body of a stored block."""
    return zlib.decompress(packed).decode()


def _parts(entries: Iterable[Entry]) -> Iterator[tuple[list[Entry], list[str]]]:
    part: list[Entry] = []
    texts: list[str] = []
    size = 0
    for entry in entries:
        text = encode_basestring(entry.text)
        more = (len(text) if text.isascii() else len(text.encode())) + _LINE_EXTRA
        if part and (size + more > MOST_BYTES or len(part) == MOST_LINES):
            yield part, texts
            part, texts, size = [], [], 0
        part.append(entry)
        texts.append(text)
        size += more
    if part:
        yield part, texts


def _body(first: int, part: Sequence[Entry], texts: Sequence[str]) -> str:
    times = [part[0].at, *(late.at - early.at for early, late in zip(part, part[1:], strict=False))]
    kinds = [[len(list(same)), *kind] for kind, same in groupby(part, key=lambda entry: entry.kind)]
    at, who = ",".join(map(str, times)), json.dumps(kinds, ensure_ascii=False, separators=(",", ":"))
    return f'{{"first":{first},"at":[{at}],"kinds":{who},"texts":[{",".join(texts)}]}}'


def _line(number: int, entry: Entry) -> Line:
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
