"""One line of a log, before and after it has a number."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict


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
