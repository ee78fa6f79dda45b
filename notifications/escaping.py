"""Escaping and truncation of texts for chat services."""

import re
from typing import Final

from guards.text import sanitize_text

# Chat tools read these as links or mentions, and a failed program could print them.
_MENTION: Final = re.compile(r"@(?=\w)")
# Markdown links, which may show another URL than their target, and bare URLs.
_LINK: Final = re.compile(r"(?<=\])(?=\()|(?<=:)(?=//)")
_ZERO_WIDTH_SPACE: Final = "\u200b"
_BRACKETS: Final = str.maketrans({"<": "‹", ">": "›"})


def escape_for_chat(text: str) -> str:
    """Return a text without markup of chat tools."""
    return _LINK.sub(_ZERO_WIDTH_SPACE, _MENTION.sub(f"@{_ZERO_WIDTH_SPACE}", text.translate(_BRACKETS)))


def collapse_whitespace(text: str) -> str:
    """Return a text as one line without control characters."""
    return " ".join(sanitize_text(text).replace("\x1b", "").split())


def truncate_line(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters."""
    line = collapse_whitespace(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"
