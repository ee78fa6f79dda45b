"""One line of a log, before and after it has a number."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

LONGEST_LINE = 16_384
# Each escape takes six bytes on the wire; a line of nothing else would not fit into a frame.
_MOST_ESCAPES = 2_000
_BROKEN = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff]")


class Origin(StrEnum):
    """Who said a line."""

    SLIPWAY = "slipway"
    AWS = "aws"
    CONTAINER = "container"


class Line(TypedDict):
    """One line as the API shows it; `number` counts from 1 per execution, `at` is UTC in ISO 8601."""

    number: int
    at: str
    step: str
    unit: str
    level: str
    origin: str
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
    origin: Origin | None = None

    @property
    def said_by(self) -> Origin:
        """Who it is from; an AWS event is AWS's, and what names nobody is Slipway's own."""
        return self.origin or (Origin.AWS if self.level == "event" else Origin.SLIPWAY)


def clean(text: str) -> str:
    """A text without what could break a terminal, a page or PostgreSQL; colours (SGR) stay."""
    if text.isprintable():
        return text
    cleaned = _BROKEN.sub("\ufffd", text.replace("\n", " "))
    return cleaned.replace("\x1b", "\u241b") if cleaned.count("\x1b") > _MOST_ESCAPES else cleaned


def cut(text: str) -> str:
    """A text of at most 16 KiB, which says so where it was longer."""
    if len(text) * 4 <= LONGEST_LINE:
        return text
    encoded = text.encode()
    if len(encoded) <= LONGEST_LINE:
        return text
    return f"{encoded[:LONGEST_LINE].decode('utf-8', 'ignore')} … (cut, {len(text)} characters)"
