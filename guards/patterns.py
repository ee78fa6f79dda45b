"""Regular expressions that people write, kept to those that no text can make slow."""

import re
import warnings
from typing import Final

from guards.limits import PATTERN_CHARACTERS, PATTERN_REPEATS, PATTERN_TEXT

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
