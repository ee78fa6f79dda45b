"""What a look at a delegate's documents finds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Document = Mapping[str, Any]
Source = Literal["task definition", "service"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong in a document, where, and what to do; a warning lets a delegate start."""

    document: Source
    place: str
    message: str
    fix: str = ""
    is_warning: bool = False

    def as_record(self) -> dict[str, Any]:
        return {
            "document": self.document,
            "place": self.place,
            "message": self.message,
            "fix": self.fix,
            "is_warning": self.is_warning,
        }
