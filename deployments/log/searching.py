"""Finds lines in a stored log: a text, a level, who said them, a step; as line numbers, a page at a time."""

import json
import re
from dataclasses import dataclass, field
from itertools import chain, repeat
from json.encoder import encode_basestring
from uuid import UUID

from deployments.log.blocks import decompress
from deployments.models import LogChunk

MOST_NUMBERS = 5_000
# About a hundred thousand lines, which takes some 60 ms.
MOST_CHUNKS = 250
# As the page shows them: what stands in an escape sequence cannot be found.
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")


@dataclass(frozen=True)
class Wanted:
    """What a line must be: every condition that is given holds."""

    text: str = ""
    match_case: bool = False
    levels: frozenset[str] = field(default_factory=frozenset)
    origin: str = ""
    step: str = ""

    def is_said_by(self, step: str, level: str, origin: str) -> bool:
        """Whether a line of this kind can be meant."""
        return (
            (not self.levels or level in self.levels)
            and (not self.origin or origin == self.origin)
            and (not self.step or step == self.step)
        )

    def folded(self, text: str) -> str:
        """A text as it is compared."""
        return text if self.match_case else text.lower()


@dataclass(frozen=True)
class Found:
    """Numbers of lines in order; `next` is where to go on after, None at the end of the log."""

    numbers: list[int]
    next: int | None


def search(execution_id: UUID, wanted: Wanted, *, after: int = 0) -> Found:
    """The lines above `after` that are wanted, as far as one call looks: 250 chunks or 5,000 lines."""
    numbers: list[int] = []
    chunks = LogChunk.objects.filter(execution_id=execution_id, last__gt=after).order_by("first")
    for seen, chunk in enumerate(chunks[: MOST_CHUNKS + 1].iterator(chunk_size=20)):
        if seen == MOST_CHUNKS or len(numbers) >= MOST_NUMBERS:
            return Found(numbers, chunk.first - 1)
        numbers += [number for number in _in_body(decompress(chunk.packed), wanted) if number > after]
    return Found(numbers, None)


def _in_body(body: str, wanted: Wanted) -> list[int]:
    needle = wanted.folded(wanted.text)
    if needle and not _may_hold(body, needle, wanted):
        return []
    columns = json.loads(body)
    kinds = chain.from_iterable(
        repeat(wanted.is_said_by(step, level, origin), count)
        for count, step, _unit, level, origin in columns["kinds"]
    )
    return [
        number
        for number, (is_meant, text) in enumerate(zip(kinds, columns["texts"], strict=True), columns["first"])
        if is_meant and (not needle or needle in wanted.folded(_shown(text)))
    ]


def _may_hold(body: str, needle: str, wanted: Wanted) -> bool:
    """A look at the JSON as a whole rules most blocks out; colours can stand inside a word."""
    return "\\u001b" in body or encode_basestring(needle)[1:-1] in wanted.folded(body)


def _shown(text: str) -> str:
    return _SEQUENCE.sub("", text) if "\x1b" in text else text
