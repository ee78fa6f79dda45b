"""Strict JSON parser (RFC 8259) with limits, and with line, column and path of each problem."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from guards import limits
from guards.document_tree import DocumentTree
from guards.input_problems import InputProblem, InputRejected, get_line_and_column
from guards.text import find_text_problem

# Every quantifier is possessive: whatever the text is, each character is looked at once.
_TOKEN: Final = re.compile(
    r"""[ \t\n\r]*+(?:
        ([\[\]{},:])
      | ("[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
      | (-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+)(?![0-9A-Za-z.+_-])
      | ([A-Za-z]++)
      | \Z
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = {"null": None, "true": True, "false": False}
_NON_FINITE_NUMBERS: Final = ("NaN", "Infinity")
_VALUE, _KEY, _COLON, _NEXT, _END = "a value", "a key in quotes", "a colon", "a comma or an end", "the end"


def parse_json(
    text: str,
    *,
    depth: int = limits.JSON_DEPTH,
    values: int = limits.JSON_VALUES,
    most: int = limits.BODY_BYTES,
) -> Any:
    """Read one JSON value. Raises `Refused`, in milliseconds whatever the text is."""
    if len(text) > most:
        raise InputRejected(InputProblem(f"the JSON is larger than {most // 1024} KiB", "send less"))
    if fault := find_text_problem(text):
        raise InputRejected(fault)
    return _JsonReader(text, depth=depth, values=values).read()


class _JsonReader:
    """Walks over the tokens; what may come next is one word of state, so nothing recurses."""

    def __init__(self, text: str, *, depth: int, values: int) -> None:
        self.text = text
        self.tree: DocumentTree[int] = DocumentTree(
            depth=depth, values=values, place=lambda at: get_line_and_column(text, at)
        )
        self.awaits = _VALUE
        self.may_end = False

    def read(self) -> Any:
        """The value of the whole text. Raises `Refused`."""
        next_token, position, steps = _TOKEN.match, 0, self._steps()
        while found := next_token(self.text, position):
            position, kind = found.end(), found.lastindex
            if kind is None:
                break
            steps[kind](found[kind], found.start(kind))
        if found is None:
            raise self._unreadable(position)
        if self.awaits != _END:
            raise self.tree.refused(len(self.text), f"the JSON ends where {self.awaits} should stand")
        return self.tree.root

    def _steps(self) -> tuple[Callable[[str, int], None], ...]:
        """What to do with each kind of piece, in the order of the pattern's groups, which count from 1."""
        return (self._unexpected, self._punctuation, self._text, self._number, self._word)

    def _punctuation(self, piece: str, at: int) -> None:
        if piece == "," and self.awaits == _NEXT:
            self.awaits = _KEY if self._is_mapping() else _VALUE
        elif piece == ":" and self.awaits == _COLON:
            self.awaits = _VALUE
        elif piece in "{[" and self.awaits == _VALUE:
            self.tree.start({} if piece == "{" else [], at)
            self.awaits, self.may_end = (_KEY if piece == "{" else _VALUE), True
        elif self._closes(piece):
            self.tree.end()
            self.awaits, self.may_end = (_NEXT if self.tree.open else _END), False
        else:
            self._unexpected(piece, at)

    def _is_mapping(self) -> bool:
        return self.tree.inner is not None and self.tree.inner.is_mapping

    def _closes(self, piece: str) -> bool:
        awaited = self.awaits == _NEXT or self.may_end
        return awaited and self.tree.inner is not None and piece == ("}" if self._is_mapping() else "]")

    def _text(self, piece: str, at: int) -> None:
        text = piece[1:-1] if "\\" not in piece else self._unescaped(piece, at)
        if self.awaits == _KEY:
            self.tree.key(text, at)
            self.awaits, self.may_end = _COLON, False
        else:
            self._value(text, piece, at)

    def _number(self, piece: str, at: int) -> None:
        number = parse_number(piece)
        if number is None:
            raise self.tree.refused(at, "the number is too large", "send it as a text")
        self._value(number, piece, at)

    def _word(self, piece: str, at: int) -> None:
        if piece in _NON_FINITE_NUMBERS:
            raise self.tree.refused(at, f"{piece} is not a JSON number", "send null, or leave it out")
        if piece not in _KEYWORDS:
            self._unexpected(piece, at)
        self._value(_KEYWORDS[piece], piece, at)

    def _value(self, value: Any, piece: str, at: int) -> None:
        if self.awaits != _VALUE:
            self._unexpected(piece, at)
        self.tree.put(value, at)
        self.awaits, self.may_end = (_NEXT if self.tree.open else _END), False

    def _unescaped(self, piece: str, at: int) -> str:
        try:
            text: str = json.loads(piece)
        except ValueError as problem:
            raise self.tree.refused(at, "a text holds an escape that JSON does not know") from problem
        if fault := find_text_problem(text):
            raise self.tree.refused(at, fault.what, fault.fix)
        return text

    def _unexpected(self, piece: str, at: int) -> NoReturn:
        shown = piece if len(piece) <= 20 else f"{piece[:20]}…"
        raise self.tree.refused(at, f"{shown} stands where {self.awaits} should stand")

    def _unreadable(self, position: int) -> InputRejected:
        at = position + len(self.text[position:]) - len(self.text[position:].lstrip(" \t\n\r"))
        character = self.text[at]
        if character == '"':
            return self.tree.refused(at, "a text has no end, or a line end in it", "write line ends as \\n")
        if character == "'":
            return self.tree.refused(at, "a single quote is not JSON", 'use "')
        return self.tree.refused(at, f"{character!r} stands where {self.awaits} should stand")


def parse_number(digits: str) -> int | float | None:
    """The number of a text that looks like one; None if no database could hold it."""
    if len(digits) > limits.NUMBER_CHARACTERS:
        return None
    if digits.lstrip("+-").isdigit():
        whole = int(digits)
        return whole if -limits.MAX_INTEGER - 1 <= whole <= limits.MAX_INTEGER else None
    number = float(digits)
    return number if math.isfinite(number) else None
