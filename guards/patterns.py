"""Regular expressions on RE2, and globs, both in linear time."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import re2

from guards.limits import PATTERN_CHARACTERS, PATTERN_TEXT_CHARACTERS

# Plain descriptions of features that RE2 lacks; its own messages need knowledge of its syntax.
_ERROR_TEXTS: Final = {
    "invalid perl operator": "looks around or uses another group (?...) that is not supported",
    "invalid escape sequence": "refers back with \\1, or has another escape sequence that is not supported",
    "repetition size": "repeats more than 1,000 times",
    "pattern too large": "is too large: repeat less in it",
}


def _build_options() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


def describe_pattern_problem(pattern: str) -> str:
    """Return the problem of a pattern, as the end of a sentence; empty if it is valid."""
    if len(pattern) > PATTERN_CHARACTERS:
        return f"may have {PATTERN_CHARACTERS} at most"
    try:
        re2.compile(pattern, _build_options())
    except (re2.error, UnicodeError) as error:
        message = _read_error_message(error)
        for start, words in _ERROR_TEXTS.items():
            if message.startswith(start) or start in message:
                return f"{words} ({message})"
        return f"is no regular expression: {message}"
    return ""


def _read_error_message(error: Exception) -> str:
    """Return the message of RE2, which is bytes."""
    message = error.args[0] if error.args else "it cannot be read"
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


def is_full_match(pattern: str, text: str) -> bool:
    """Return whether all of a text fits a pattern without a fault; a text that is too long does not."""
    return next(filter_matches(pattern, [text]), None) is not None


class PatternRejected(ValueError):
    """Pattern that is not valid; the message is the end of a sentence."""


def has_match(pattern: str, text: str) -> bool:
    """Return whether a part of a text fits a pattern. Raises `PatternRejected`."""
    if problem := describe_pattern_problem(pattern):
        raise PatternRejected(problem)
    return re2.compile(pattern, _build_options()).search(text) is not None


def filter_matches(pattern: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that fit a pattern without a fault."""
    compiled = re2.compile(pattern, _build_options())
    for text in texts:
        if len(text) <= PATTERN_TEXT_CHARACTERS and compiled.fullmatch(text) is not None:
            yield text


def is_glob_match(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which * matches anything, in linear time."""
    first, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    if not text.startswith(first):
        return False
    *middle, last = parts
    position = len(first)
    for part in middle:
        index = text.find(part, position)
        if index < 0:
            return False
        position = index + len(part)
    return len(text) - len(last) >= position and text.endswith(last)
