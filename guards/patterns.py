"""Regular expressions that people write, kept to those that no text can make slow."""

import re
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Final

from guards.limits import PATTERN_CHARACTERS, PATTERN_REPEATS, PATTERN_SECONDS, PATTERN_TEXT

# A group that is repeated, a look around, or a reference back is what makes some texts take for ever.
_REPEATED_GROUP: Final = re.compile(r"(?<!\\)\)(?:[*+]|\{)")
_SPECIAL_GROUP: Final = re.compile(r"(?<!\\)\(\?(?!:)")
_REFERENCE: Final = re.compile(r"\\[1-9]")
_UNBOUNDED: Final = re.compile(r"(?<!\\)(?:[*+]|\{\d*,\d*\}|\{\d{3,}\})")


def pattern_fault(pattern: str) -> str:
    """Why a pattern is not taken, in words that go after it; empty if it is."""
    if len(pattern) > PATTERN_CHARACTERS:
        return f"may have {PATTERN_CHARACTERS} at most"
    if _REPEATED_GROUP.search(pattern):
        return "repeats a group; repeat single characters or [sets] instead"
    if _SPECIAL_GROUP.search(pattern) or _REFERENCE.search(pattern):
        return "looks around or refers back, which is not supported"
    if len(_UNBOUNDED.findall(pattern)) > PATTERN_REPEATS:
        return f"may have {PATTERN_REPEATS} of *, + and {{n,m}} at most"
    try:
        with warnings.catch_warnings():
            # A set that looks like two of them is a slip.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, FutureWarning, OverflowError, RecursionError) as bad:
        return f"is no regular expression: {bad}"
    return ""


def fits(pattern: str, text: str) -> bool:
    """Whether all of a text fits a pattern without a fault; a text that is too long does not."""
    return len(text) <= PATTERN_TEXT and re.fullmatch(pattern, text) is not None


class PatternTooSlow(Exception):
    """Some texts keep a pattern busy for too long."""


def fitting(pattern: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that fit a pattern without a fault.

    One text cannot take long; raises `PatternTooSlow` where all of them together do.
    """
    end = time.thread_time() + PATTERN_SECONDS
    for text in texts:
        if fits(pattern, text):
            yield text
        if time.thread_time() > end:
            raise PatternTooSlow(
                f"the expression {pattern} takes more than {PATTERN_SECONDS}: repeat less in it"
            )


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
