"""Hides secrets in what is stored or sent: as they are, and in the forms that programs print them in."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from guards.spellings import forms_of

HIDDEN = "•••"
# Anything shorter would hide half of every log.
FEWEST_CHARACTERS = 6
# A line of a wrapped form that comes by itself is known by this many letters.
FEWEST_LETTERS: Final = 16
# What programs put into a form that is longer than their lines: an end of line, real or escaped, an indent.
# Blanks are tried from their first alone: from each of them, many in a row would take a time of their square.
_BREAK: Final = re.compile(r"(?:(?<![ \t])[ \t]+)?(?:\r?\n|(?:\\r)?\\n)[ \t]*")
_BESIDE: Final = ("\r", "\n ", "\n\t", " \n", "\t\n")
_SOLID: Final = re.compile(r"[A-Za-z0-9+/_%=-]+")
_QUOTES: Final = "\"'`,;\\ \t\r"


class Mask:
    """Hides a set of secrets; made once for many lines, because the forms take time to work out."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        found = {form for secret in secrets for form in forms_of(secret) if len(form) >= FEWEST_CHARACTERS}
        # The longest first: a secret that holds another one goes as a whole.
        self._forms = sorted(found, key=lambda form: (-len(form), form))
        unbroken = [form for form in self._forms if not re.search(r"\s", form)]
        # What a secret itself holds of escaped ends of lines is taken for breaks too.
        bare = [_BREAK.sub("", form) for form in unbroken if "\\n" in form]
        self._unbroken = [*unbroken, *(form for form in bare if len(form) >= FEWEST_CHARACTERS)]
        # One text to look into; what stands between two forms is in no piece.
        self._solid = "\0".join(form for form in self._unbroken if _SOLID.fullmatch(form))

    @property
    def longest(self) -> int:
        """Characters of the longest form."""
        return len(self._forms[0]) if self._forms else 0

    def text(self, text: str) -> str:
        """A text with every known secret hidden; it keeps as many ends of lines as it has."""
        if not self._forms:
            return text
        for form in self._forms:
            if form in text:
                text = text.replace(form, HIDDEN + "\n" * form.count("\n"))
        if "\n" in text or "\\n" in text:
            text = self._over_lines(text)
        return self._without_pieces(text) if self._solid else text

    def inside(self, value: Any) -> Any:
        """The same for each text in what JSON can hold, names included."""
        if not self._forms:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.inside(one) for name, one in value.items()}
        return [self.inside(one) for one in value] if isinstance(value, list | tuple) else value

    def texts(self, texts: Sequence[str]) -> list[str]:
        """The same for many lines at once, also where a secret runs over the end of a line."""
        if not self._forms or not texts:
            return list(texts)
        return self.text("\n".join(texts)).split("\n")

    def _over_lines(self, text: str) -> str:
        """Hide what is wrapped: forms that would be there if the lines were one."""
        joined = _joined(text)
        for form in self._unbroken:
            if form in joined:
                text = _hide_wrapped(text, form)
                joined = _joined(text)
        return text

    def _without_pieces(self, text: str) -> str:
        """Hide what lines end with if that is nothing but a piece of a secret: one line of a wrapped form."""
        ends = [line.rpartition(" ")[2].strip(_QUOTES) for line in text.split("\n")]
        for piece in {end for end in ends if len(end) >= FEWEST_LETTERS and end in self._solid}:
            text = text.replace(piece, HIDDEN)
        return text


NOTHING_SECRET = Mask()


def _joined(text: str) -> str:
    """The text without its breaks."""
    if "\\n" in text:
        return _BREAK.sub("", text)
    if not any(beside in text for beside in _BESIDE):
        return text.replace("\n", "")
    # Much faster, and the same.
    return "".join([line.strip(" \t\r") for line in text.split("\n")])


def _hide_wrapped(text: str, form: str) -> str:
    """The text without a form that breaks interrupt; the ends of lines among them stay."""
    places = _unbroken_places(text)
    joined = "".join(text[place] for place in places)
    pieces, done, start = [], 0, joined.find(form)
    while start >= 0:
        begin, end = places[start], places[start + len(form) - 1] + 1
        pieces += [text[done:begin], HIDDEN, "\n" * text.count("\n", begin, end)]
        done, start = end, joined.find(form, start + len(form))
    return "".join([*pieces, text[done:]])


def _unbroken_places(text: str) -> list[int]:
    """Where the characters of a text are that belong to no break."""
    places: list[int] = []
    done = 0
    for found in _BREAK.finditer(text):
        places += range(done, found.start())
        done = found.end()
    return [*places, *range(done, len(text))]
