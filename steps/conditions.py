"""Parser and evaluation of conditions such as `<+env.type> == "Production"`."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guards.limits import CONDITION_CHARACTERS, CONDITION_DEPTH
from steps.expressions import BadExpressionError, get_path_value

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<path><\+[^<>]*>)
      | (?P<text>"(?:[^"\\]|\\["\\])*"|'(?:[^'\\]|\\['\\])*')
      | (?P<number>-?\d{1,18}(?:\.\d{1,18})?)(?![\w.])
      | (?P<word>\.?[A-Za-z]+)
      | (?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\],])
    )""",
    re.VERBOSE,
)
_ORDER_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
}
_COMPARISONS = ("==", "!=", *_ORDER_OPERATORS, "in", *_TEXT_OPERATORS)
_KEYWORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?")
_SHOWN_CHARACTERS = 60


class BadConditionError(ValueError):
    """A condition that cannot be parsed; `column` counts from 1."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"{message} (column {column})")
        self.message = message
        self.column = column


class UnclearConditionError(ValueError):
    """A condition without a value: it names an unknown value or compares incomparable ones."""


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `paths` are the paths of its expressions."""

    text: str
    paths: tuple[str, ...]
    _root: "_ConditionNode" = field(repr=False)

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Return whether it is true for these values. Raises `UnclearConditionError`."""
        return _require_boolean(self._root.value(values))


def parse_condition(text: str) -> Condition:
    """Parse a condition. Raises `BadConditionError`."""
    if len(text) > CONDITION_CHARACTERS:
        raise BadConditionError(f"A condition may have {CONDITION_CHARACTERS} at most.", 1)
    parser = _ConditionParser(list(_tokenize(text)), len(text) + 1)
    root = parser.parse_or(0)
    parser.expect_end()
    return Condition(text, tuple(dict.fromkeys(parser.paths)), root)


# --- nodes of the syntax tree ---------------------------------------------------------------------


class _ConditionNode:
    def value(self, values: Mapping[str, Any]) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class _LiteralNode(_ConditionNode):
    literal: Any

    def value(self, values: Mapping[str, Any]) -> Any:
        return self.literal


@dataclass(frozen=True)
class _PathNode(_ConditionNode):
    path: str

    def value(self, values: Mapping[str, Any]) -> Any:
        try:
            return get_path_value(self.path, values)
        except BadExpressionError as bad:
            raise UnclearConditionError(bad.message) from bad


@dataclass(frozen=True)
class _ListNode(_ConditionNode):
    items: tuple[_ConditionNode, ...]

    def value(self, values: Mapping[str, Any]) -> Any:
        return [item.value(values) for item in self.items]


@dataclass(frozen=True)
class _NotNode(_ConditionNode):
    inner: _ConditionNode

    def value(self, values: Mapping[str, Any]) -> Any:
        return not _require_boolean(self.inner.value(values))


@dataclass(frozen=True)
class _LogicalNode(_ConditionNode):
    """Parts joined by `&&` or `

    `; evaluation stops as soon as the result is known.
    """

    is_all: bool
    parts: tuple[_ConditionNode, ...]

    def value(self, values: Mapping[str, Any]) -> Any:
        truths = (_require_boolean(part.value(values)) for part in self.parts)
        return all(truths) if self.is_all else any(truths)


@dataclass(frozen=True)
class _ComparisonNode(_ConditionNode):
    sign: str
    left: _ConditionNode
    right: _ConditionNode

    def value(self, values: Mapping[str, Any]) -> Any:
        left, right = self.left.value(values), self.right.value(values)
        if self.sign in ("==", "!="):
            return _is_equal(left, right) == (self.sign == "==")
        if self.sign in _ORDER_OPERATORS:
            return _ORDER_OPERATORS[self.sign](
                _require_number(left, self.sign), _require_number(right, self.sign)
            )
        if self.sign == "in":
            return _is_in(left, right)
        return _TEXT_OPERATORS[self.sign](_require_text(left, self.sign), _require_text(right, self.sign))


def _require_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise UnclearConditionError(f"{_format_value(value)} is neither true nor false: add a comparison.")


def _is_equal(left: Any, right: Any) -> bool:
    """Compare; a text that reads as a number or boolean equals that value, because inputs are often texts."""
    for operand, other in ((left, right), (right, left)):
        if isinstance(operand, bool) and isinstance(other, str):
            return other == ("true" if operand else "false")
        if _is_number(operand) and isinstance(other, str):
            return bool(_NUMBER.fullmatch(other)) and float(other) == operand
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _is_in(left: Any, right: Any) -> bool:
    if isinstance(right, list):
        return any(_is_equal(left, element) for element in right)
    if isinstance(right, str):
        return any(_is_equal(left, element.strip()) for element in right.split(","))
    raise UnclearConditionError(f"{_format_value(right)} is not a list: write in ['a', 'b'].")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require_number(value: Any, sign: str) -> float:
    if _is_number(value):
        return float(value)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    raise UnclearConditionError(f"{_format_value(value)} is not a number, and {sign} compares numbers.")


def _require_text(value: Any, sign: str) -> str:
    if isinstance(value, str) or _is_number(value):
        return str(value)
    raise UnclearConditionError(f"{_format_value(value)} is not a text, and {sign} looks into texts.")


def _format_value(value: Any) -> str:
    return repr(value)[:_SHOWN_CHARACTERS]


# --- parsing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int


def _tokenize(text: str) -> Iterator[_Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            column = position + len(text[position:]) - len(text[position:].lstrip()) + 1
            raise BadConditionError(f"{text[column - 1 : column + 9]!r} cannot be read.", column)
        kind = match.lastgroup or ""
        yield _Token(kind, match[kind], match.start(kind) + 1)
        position = match.end()


class _ConditionParser:
    """Recursive descent from the loosest binding, `

    `, to the tightest.
    """

    def __init__(self, tokens: list[_Token], end: int) -> None:
        self._tokens = tokens
        self._at = 0
        self._end = end
        self.paths: list[str] = []

    def parse_or(self, depth: int) -> _ConditionNode:
        return self._parse_joined("||", self._parse_and, depth)

    def expect_end(self) -> None:
        if self._at < len(self._tokens):
            token = self._tokens[self._at]
            raise BadConditionError(
                f"{token.text!r} does not belong here: join two with && or ||.", token.column
            )

    def _parse_and(self, depth: int) -> _ConditionNode:
        return self._parse_joined("&&", self._parse_not, depth)

    def _parse_joined(self, sign: str, part: Callable[[int], _ConditionNode], depth: int) -> _ConditionNode:
        parts = [part(depth)]
        while self._accept(sign):
            parts.append(part(depth))
        return parts[0] if len(parts) == 1 else _LogicalNode(sign == "&&", tuple(parts))

    def _parse_not(self, depth: int) -> _ConditionNode:
        negations = 0
        while self._accept("!"):
            negations += 1
        node = self._parse_comparison(depth)
        return node if negations == 0 else _NotNode(node) if negations % 2 else _NotNode(_NotNode(node))

    def _parse_comparison(self, depth: int) -> _ConditionNode:
        left = self._parse_operand(depth)
        sign = next((comparison for comparison in _COMPARISONS if self._accept(comparison)), None)
        if sign is not None:
            return _ComparisonNode(sign, left, self._parse_operand(depth))
        method = next(
            (text_operator for text_operator in _TEXT_OPERATORS if self._accept(f".{text_operator}")), None
        )
        if method is None:
            return left
        self._expect("(")
        right = self._parse_operand(depth)
        self._expect(")")
        return _ComparisonNode(method, left, right)

    def _parse_operand(self, depth: int) -> _ConditionNode:
        if depth > CONDITION_DEPTH:
            raise BadConditionError(f"A condition may have {CONDITION_DEPTH} at most.", self._column)
        if self._accept("("):
            inner = self.parse_or(depth + 1)
            self._expect(")")
            return inner
        if self._accept("["):
            return self._parse_list(depth)
        if self._at == len(self._tokens):
            raise BadConditionError("A value is missing here.", self._end)
        self._at += 1
        return self._parse_literal(self._tokens[self._at - 1])

    def _parse_literal(self, token: _Token) -> _ConditionNode:
        if token.kind == "path":
            return self._parse_path(token)
        if token.kind == "text":
            return _LiteralNode(re.sub(r"\\(.)", r"\1", token.text[1:-1]))
        if token.kind == "number":
            return _LiteralNode(float(token.text) if "." in token.text else int(token.text))
        if token.text in _KEYWORDS:
            return _LiteralNode(_KEYWORDS[token.text])
        raise BadConditionError(
            f"{token.text!r} is not a value: write texts in quotes, and names as <+path.to.value>.",
            token.column,
        )

    def _parse_path(self, token: _Token) -> _ConditionNode:
        path = token.text[2:-1].strip()
        self.paths.append(path)
        return _PathNode(path)

    def _parse_list(self, depth: int) -> _ConditionNode:
        items: list[_ConditionNode] = []
        while not self._accept("]"):
            if items:
                self._expect(",")
            items.append(self._parse_operand(depth + 1))
        return _ListNode(tuple(items))

    @property
    def _column(self) -> int:
        return self._tokens[self._at].column if self._at < len(self._tokens) else self._end

    def _accept(self, text: str) -> bool:
        is_next = self._at < len(self._tokens) and self._tokens[self._at].text == text
        self._at += is_next
        return is_next

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise BadConditionError(f"{text!r} is missing here.", self._column)
