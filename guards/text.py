"""Checks and sanitization of text: storable characters, misleading names, length."""

import re
from typing import Final

from guards.input_problems import InputProblem, get_line_and_column

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Marks, embeddings, overrides and isolates: they make a name read as another one (Unicode TR 36, 3.3).
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LINE_ENDS: Final = re.compile("[\n\r\u2028\u2029]")

# Control, format, private and unassigned characters: as ranges instead of categories, because the API
# description contains the same pattern, and so that new Unicode characters are accepted. Emoji are joined by
# U+200D, and some scripts need U+200C, so both are permitted.
_INVISIBLE_RANGES: Final = (
    "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u180e\\u200b"
    "\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ue000-\\uf8ff\\ufdd0-\\ufdef\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff"
)
_INVISIBLE_ASTRAL_RANGES: Final = (
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_INVISIBLE: Final = re.compile(f"[{_INVISIBLE_RANGES}{_INVISIBLE_ASTRAL_RANGES}\ud800-\udfff]")
# For names in JSON Schema, whose regular expressions differ beyond U+FFFF.
NAME_PATTERN: Final = rf"^[^{_INVISIBLE_RANGES}]*[^\s{_INVISIBLE_RANGES}][^{_INVISIBLE_RANGES}]*$"

MAX_LINE_BYTES: Final = 16_384
# Each escape takes six bytes on the wire; a line of only escapes would not fit into a frame.
_MAX_ESCAPES: Final = 2_000
# Colors, titles and links of terminals. In a sanitized text U+FFFD stands for the bell that ends a title or a
# link. Without an end it is none, and what follows stays readable.
_ESCAPE_SEQUENCE: Final = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b\ufffd]*(?:[\x07\ufffd]|\x1b\\\\)"
)
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\ud800-\udfff]")
# Of the control characters, sanitized lines have only escapes. Text direction marks could reorder a line, and
# line separators break it.
_UNSEEN: Final = re.compile("[\x1b\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


# Each number of so many digits fits into a key.
_KEY_DIGITS: Final = 18


def parse_key(text: str) -> int | None:
    """Return the key of a row that a text names; None for other texts, and numbers that no key can have."""
    return int(text) if text.isdecimal() and len(text) <= _KEY_DIGITS else None


def strip_escape_sequences(text: str) -> str:
    """Return the text without colors and other escape sequences of terminals."""
    return _ESCAPE_SEQUENCE.sub("", text) if "\x1b" in text else text


def format_plain(text: str) -> str:
    """Return a sanitized line for a page without scripts: no colors, visible control characters."""
    return _UNSEEN.sub(_format_control, strip_escape_sequences(text))


def _format_control(match: re.Match[str]) -> str:
    return f"\u27e8U+{ord(match[0]):04X}\u27e9"


def find_text_problem(text: str) -> InputProblem | None:
    """Return the reason why a text cannot be stored: NUL (PostgreSQL), or half of a surrogate pair."""
    position = text.find("\0")
    if position >= 0:
        line, column = get_line_and_column(text, position)
        return InputProblem("a NUL character is not allowed", "remove it", line, column)
    if not text.isascii() and (match := _SURROGATE.search(text)):
        line, column = get_line_and_column(text, match.start())
        return InputProblem("half of a surrogate pair is not a character", "send it as UTF-8", line, column)
    return None


def find_encoding_problem(text: str) -> InputProblem | None:
    """Return the problem of a text with U+FFFD, by which earlier agents replace bytes that are not UTF-8."""
    position = text.find("\ufffd")
    if position < 0:
        return None
    line, column = get_line_and_column(text, position)
    return InputProblem("this is not UTF-8, or has U+FFFD", "save the file as UTF-8", line, column)


def find_control_problem(text: str) -> InputProblem | None:
    """Return the problem as `find_text_problem`, also for control characters except tab and line ends."""
    if problem := find_text_problem(text):
        return problem
    if match := _CONTROL.search(text):
        line, column = get_line_and_column(text, match.start())
        reason = f"the control character U+{ord(match[0]):04X} is not allowed"
        return InputProblem(reason, "remove it", line, column)
    return None


def find_size_problem(text: str, max_bytes: int) -> InputProblem | None:
    """Return a problem above `most` bytes of UTF-8; `text` must have passed `find_text_problem`."""
    # A character has one to four bytes, so most texts need not be encoded to know.
    if len(text) * 4 <= max_bytes or (len(text) <= max_bytes and len(text.encode()) <= max_bytes):
        return None
    return InputProblem(f"the text is larger than {max_bytes // 1024} KiB", "make it shorter")


def find_name_problem(name: str, max_characters: int) -> InputProblem | None:
    """Return the problem of a name of at most `most` characters: it must be one printable line."""
    if problem := find_text_problem(name):
        return problem
    if not name.strip():
        return InputProblem("a name is missing", f"give one of 1 to {int(max_characters)} characters")
    if len(name) > max_characters:
        return InputProblem(
            f"a name may have {int(max_characters)} characters at most",
            f"leave out {len(name) - max_characters}",
        )
    for position, character in enumerate(name):
        if description := _describe_misleading_character(character):
            return InputProblem(f"character {position + 1} of the name is {description}", "remove it")
    return None


def _describe_misleading_character(character: str) -> str:
    """Return the description of a character that a name may not contain; empty for others."""
    if not _INVISIBLE.match(character):
        return ""
    if _BIDI.match(character):
        return f"U+{ord(character):04X}, which changes the text direction"
    if _LINE_ENDS.match(character):
        return "a line end"
    return f"U+{ord(character):04X}, which is invisible"


def sanitize_text(text: str) -> str:
    """Return a text without characters that break a terminal, a page or PostgreSQL; colors (SGR) stay."""
    if text.isprintable():
        return text
    cleaned = _UNPRINTABLE.sub("\ufffd", text.replace("\n", " "))
    return cleaned.replace("\x1b", "\u241b") if cleaned.count("\x1b") > _MAX_ESCAPES else cleaned


def truncate_text(text: str) -> str:
    """Truncate a text to 16 KiB, with a note."""
    if len(text) * 4 <= MAX_LINE_BYTES:
        return text
    encoded = text.encode()
    if len(encoded) <= MAX_LINE_BYTES:
        return text
    return f"{encoded[:MAX_LINE_BYTES].decode('utf-8', 'ignore')} … (cut, {len(text)} characters)"
