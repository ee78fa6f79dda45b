"""Problems of call parameters, with path and message."""

from dataclasses import dataclass
from typing import Any

ParameterPath = tuple[str | int, ...]


@dataclass(frozen=True)
class ShapeProblem:
    """Problem that AWS will refuse, or with `is_warning` may refuse or ignore.

    `missing` is the missing key, if that is the problem.
    """

    path: ParameterPath
    message: str
    is_warning: bool = False
    is_unknown_key: bool = False
    missing: str = ""

    @property
    def location(self) -> str:
        """Return the path as people write it: `containerDefinitions[0].portMappings[1]`."""
        return format_path(self.path)


def format_path(path: ParameterPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def quote_value(value: Any, max_characters: int = 60) -> str:
    """Return a value as a message quotes it."""
    text = repr(value)
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"
