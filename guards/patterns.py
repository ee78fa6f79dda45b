"""Patterns that people write: regular expressions on RE2, whose time is linear in the text, and globs."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import re2

from guards.limits import PATTERN_CHARACTERS, PATTERN_TEXT

# RE2 names what it does not have; in its own words only those know it who have read its syntax.
_WORDS: Final = {
    "invalid perl operator": "looks around or uses another group (?...) that is not supported",
    "invalid escape sequence": "refers back with \\1, or has another escape sequence that is not supported",
    "repetition size": "repeats more than 1,000 times",
    "pattern too large": "is too large: repeat less in it",
}


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def pattern_fault(pattern: str) -> str:
    """Why a pattern is not taken, in words that go after it; empty if it is."""
    if len(pattern) > PATTERN_CHARACTERS:
        return f"may have {PATTERN_CHARACTERS} at most"
    try:
        re2.compile(pattern, _options())
    except (re2.error, UnicodeError) as bad:
        said = _said(bad)
        for start, words in _WORDS.items():
            if said.startswith(start) or start in said:
                return f"{words} ({said})"
        return f"is no regular expression: {said}"
    return ""


def _said(bad: Exception) -> str:
    """The words of RE2, which come as bytes."""
    said = bad.args[0] if bad.args else "it cannot be read"
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def fits(pattern: str, text: str) -> bool:
    """Whether all of a text fits a pattern without a fault; a text that is too long does not."""
    return next(fitting(pattern, [text]), None) is not None


def fitting(pattern: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that fit a pattern without a fault."""
    compiled = re2.compile(pattern, _options())
    for text in texts:
        if len(text) <= PATTERN_TEXT and compiled.fullmatch(text) is not None:
            yield text


def glob_fits(pattern: str, text: str) -> bool:
    """Whether all of a text fits a pattern in which * stands for anything; the time is linear in the text."""
    first, *others = pattern.split("*")
    if not others:
        return text == pattern
    if not text.startswith(first):
        return False
    *middle, last = others
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)
