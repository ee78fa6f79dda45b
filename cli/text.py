"""Text from the server, made safe for a terminal."""

import re
from typing import Any, Final

# Colors, links and other sequences that a terminal interprets. Stored log lines have U+FFFD for the bell
# that ends a title or a link.
_ESCAPE_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|[\x1b\x9d\x90][\]P][^\x07\x1b\x9c\ufffd]*(?:[\x07\x9c\ufffd]|\x1b\\)"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Marks that reorder text, so that it reads as another one (Unicode TR 36).
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean_text(value: object) -> str:
    """Return the text without control sequences; line ends and tabs stay."""
    text = str(value).replace("\r\n", "\n")
    text = _ESCAPE_SEQUENCE.sub("", text)
    return _BIDI.sub("", _CONTROL.sub("", text))


def clean_line(value: object) -> str:
    """Return the text as one line without control sequences."""
    return " ".join(clean_text(value).split("\n")).replace("\t", " ")


def clean_document(value: Any) -> Any:
    """Return a JSON value whose texts have no control sequences."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_document(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean_document(item) for key, item in value.items()}
    return value
