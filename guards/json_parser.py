"""Strict JSON parser (RFC 8259) with limits, and with line, column and path of each problem."""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, NoReturn

from guards import limits
from guards.document_tree import DocumentTree
from guards.input_problems import InputProblem, InputRejected, get_line_and_column
from guards.text import find_text_problem

# Every quantifier is possessive: each character is read once in any text.
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
    max_bytes: int = limits.BODY_BYTES,
) -> Any:
    """Parse one JSON value. Raises `InputRejected`, in milliseconds for any text."""
    if len(text) > max_bytes:
        raise InputRejected(InputProblem(f"the JSON is larger than {max_bytes // 1024} KiB", "send less"))
    if problem := find_text_problem(text):
        raise InputRejected(problem)
    return _JsonReader(text, depth=depth, values=values).read()


class _JsonReader:
    """Tokenizer with one state word for the next token, so that nothing recurses."""

    def __init__(self, text: str, *, depth: int, values: int) -> None:
        self.text = text
        self.tree: DocumentTree[int] = DocumentTree(
            max_depth=depth,
            max_values=values,
            get_position=lambda position: get_line_and_column(text, position),
        )
        self.expected = _VALUE
        self.may_end = False

    def read(self) -> Any:
        """Return the value of the whole text. Raises `InputRejected`."""
        next_token, position, handlers = _TOKEN.match, 0, self._list_token_handlers()
        while match := next_token(self.text, position):
            position, kind = match.end(), match.lastindex
            if kind is None:
                break
            handlers[kind](match[kind], match.start(kind))
        if match is None:
            raise self._describe_unreadable(position)
        if self.expected != _END:
            raise self.tree.build_rejection(
                len(self.text), f"the JSON ends where {self.expected} should stand"
            )
        return self.tree.root

    def _list_token_handlers(self) -> tuple[Callable[[str, int], None], ...]:
        """Return the handler of each token kind, in the order of the pattern's groups, which count from 1."""
        return (
            self._reject_token,
            self._read_punctuation,
            self._read_text,
            self._read_number,
            self._read_keyword,
        )

    def _read_punctuation(self, word: str, position: int) -> None:
        if word == "," and self.expected == _NEXT:
            self.expected = _KEY if self._is_mapping() else _VALUE
        elif word == ":" and self.expected == _COLON:
            self.expected = _VALUE
        elif word in "{[" and self.expected == _VALUE:
            self.tree.start_collection({} if word == "{" else [], position)
            self.expected, self.may_end = (_KEY if word == "{" else _VALUE), True
        elif self._is_expected_end(word):
            self.tree.end_collection()
            self.expected, self.may_end = (_NEXT if self.tree.open_nodes else _END), False
        else:
            self._reject_token(word, position)

    def _is_mapping(self) -> bool:
        return self.tree.current_node is not None and self.tree.current_node.is_mapping

    def _is_expected_end(self, word: str) -> bool:
        may_close = self.expected == _NEXT or self.may_end
        return (
            may_close and self.tree.current_node is not None and word == ("}" if self._is_mapping() else "]")
        )

    def _read_text(self, word: str, position: int) -> None:
        text = word[1:-1] if "\\" not in word else self._unescape(word, position)
        if self.expected == _KEY:
            self.tree.add_key(text, position)
            self.expected, self.may_end = _COLON, False
        else:
            self._add_value(text, word, position)

    def _read_number(self, word: str, position: int) -> None:
        number = parse_number(word)
        if number is None:
            raise self.tree.build_rejection(position, "the number is too large", "send it as a text")
        self._add_value(number, word, position)

    def _read_keyword(self, word: str, position: int) -> None:
        if word in _NON_FINITE_NUMBERS:
            raise self.tree.build_rejection(
                position, f"{word} is not a JSON number", "send null, or leave it out"
            )
        if word not in _KEYWORDS:
            self._reject_token(word, position)
        self._add_value(_KEYWORDS[word], word, position)

    def _add_value(self, value: Any, word: str, position: int) -> None:
        if self.expected != _VALUE:
            self._reject_token(word, position)
        self.tree.add_value(value, position)
        self.expected, self.may_end = (_NEXT if self.tree.open_nodes else _END), False

    def _unescape(self, word: str, position: int) -> str:
        try:
            text: str = json.loads(word)
        except ValueError as error:
            raise self.tree.build_rejection(
                position, "a text holds an escape that JSON does not know"
            ) from error
        if text_problem := find_text_problem(text):
            raise self.tree.build_rejection(position, text_problem.reason, text_problem.remedy)
        return text

    def _reject_token(self, word: str, position: int) -> NoReturn:
        excerpt = word if len(word) <= 20 else f"{word[:20]}…"
        raise self.tree.build_rejection(position, f"{excerpt} stands where {self.expected} should stand")

    def _describe_unreadable(self, position: int) -> InputRejected:
        position = position + len(self.text[position:]) - len(self.text[position:].lstrip(" \t\n\r"))
        character = self.text[position]
        if character == '"':
            return self.tree.build_rejection(
                position, "a text has no end, or a line end in it", "write line ends as \\n"
            )
        if character == "'":
            return self.tree.build_rejection(position, "a single quote is not JSON", 'use "')
        return self.tree.build_rejection(position, f"{character!r} stands where {self.expected} should stand")


def parse_number(digits: str) -> int | float | None:
    """Return the number of a text that looks like one; None if it exceeds the database's range."""
    if len(digits) > limits.NUMBER_CHARACTERS:
        return None
    if digits.lstrip("+-").isdigit():
        whole = int(digits)
        return whole if -limits.MAX_INTEGER - 1 <= whole <= limits.MAX_INTEGER else None
    number = float(digits)
    return number if math.isfinite(number) else None


def format_number(number: float) -> str:
    """Return a number as text: Python writes 0.00001 as 1e-05, which forms and many programs do not read."""
    return format(Decimal(repr(number)), "f") if isinstance(number, float) else str(number)
