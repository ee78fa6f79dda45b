"""Expressions such as `<+infra.cluster>`: lookup by path, no evaluation."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from connectors.secret_expressions import EXPRESSION_PATTERN, find_expressions, is_secret_expression
from guards.json_parser import format_number
from guards.limits import EXPRESSION_CHARACTERS, EXPRESSION_RESULT_CHARACTERS

_ADVICE_ON_SECRETS = (
    "It may stand in the script of ShellScript, and be the value of a step's variable, of a header of Http"
    " and of a parameter of CreateStack."
)
ValueLookup = Callable[[str], Any]


def describe_secret_problem(text: str, advice: str = _ADVICE_ON_SECRETS) -> str:
    """Return the problem of a secret in a text that must have none; empty if there is none."""
    expression = next(filter(is_secret_expression, find_expressions(text)), "")
    return f"<+{expression}> cannot stand here: people could read the secret. {advice}" if expression else ""


def render_expressions(text: str, resolve_expression: ValueLookup) -> str:
    """Return a text with its expressions replaced by their values as text."""
    return EXPRESSION_PATTERN.sub(lambda match: format_value(resolve_expression(match[1].strip())), text)


def format_value(value: Any) -> str:
    """Return a value as text, in JSON for lists and mappings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_number(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


_OPEN = "<+"
# Longest path in messages; a comparison of a longer one with every known path takes seconds.
_SHOWN_CHARACTERS = 200
_PATH_EXPRESSION = re.compile(r"<\+([^<>]*)>")
_PATH = re.compile(r"[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*")


class BadExpressionError(ValueError):
    """An expression that cannot be parsed or is unknown; `where` is its path inside the document."""

    def __init__(self, message: str, where: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.where = where


IsDeferred = Callable[[str], bool]
"""Predicate of paths whose value is known only later; their expressions stay unresolved."""


def resolve_expressions(
    value: Any,
    values: Mapping[str, Any],
    where: tuple[str | int, ...] = (),
    *,
    is_deferred: IsDeferred = lambda path: False,
) -> Any:
    """Return a document with its expressions resolved.

    An expression that is a whole text keeps the type of its value; inside a longer text it becomes text.
    Values are never scanned for expressions. Raises `BadExpressionError`.
    """
    return _Resolver(values, is_deferred).resolve(value, where)


def find_paths(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the paths of a document's expressions, each with the location of its text."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from find_paths(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_paths(item, (*where, index))
    elif isinstance(value, str) and _OPEN in value:
        for match in _PATH_EXPRESSION.finditer(value):
            yield where, match[1].strip()


def get_path_value(path: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a path. Raises `BadExpressionError`."""
    return _get_value(path, values, ())


def is_path(text: str) -> bool:
    """Return whether a text is a path: words of letters, digits, _, $ and -, joined by dots."""
    return _PATH.fullmatch(text) is not None


def has_expression(text: str) -> bool:
    """Return whether a text contains an expression."""
    return _OPEN in text


class _Resolver:
    """Resolution of one document, with a limit on the length of all values together."""

    def __init__(self, values: Mapping[str, Any], is_deferred: IsDeferred) -> None:
        self.values = values
        self.is_deferred = is_deferred
        self.remaining_characters = int(EXPRESSION_RESULT_CHARACTERS)

    def resolve(self, value: Any, where: tuple[str | int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: self.resolve(item, (*where, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, (*where, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and _OPEN in value:
            return self._resolve_text(value, where)
        return value

    def _resolve_text(self, text: str, where: tuple[str | int, ...]) -> Any:
        if len(text) > EXPRESSION_CHARACTERS:
            raise BadExpressionError(
                f"A text with an expression may have {EXPRESSION_CHARACTERS} at most.", where
            )
        if expression := _PATH_EXPRESSION.fullmatch(text):
            return (
                text
                if self.is_deferred(expression[1].strip())
                else _get_value(expression[1], self.values, where)
            )
        matches = list(_PATH_EXPRESSION.finditer(text))
        if text.count(_OPEN) != len(matches):
            raise BadExpressionError(_find_unclosed(text, matches), where)
        parts, end = [], 0
        for match in matches:
            value = self._get_text(match, where)
            self._count_characters(len(value), where)
            parts += [text[end : match.start()], value]
            end = match.end()
        return "".join([*parts, text[end:]])

    def _get_text(self, match: re.Match[str], where: tuple[str | int, ...]) -> str:
        if self.is_deferred(match[1].strip()):
            return match[0]
        return _format_scalar(_get_value(match[1], self.values, where), match[1], where)

    def _count_characters(self, characters: int, where: tuple[str | int, ...]) -> None:
        self.remaining_characters -= characters
        if self.remaining_characters < 0:
            raise BadExpressionError(
                f"The values of all expressions together may have {EXPRESSION_RESULT_CHARACTERS} at most.",
                where,
            )


def _find_unclosed(text: str, matches: list[re.Match[str]]) -> str:
    closed = {match.start() for match in matches}
    starts = (match.start() for match in re.finditer(re.escape(_OPEN), text))
    column = next(start for start in starts if start not in closed)
    return f"The expression in column {column + 1} has no end: write it as <+path.to.value>."


def _get_value(path: str, values: Mapping[str, Any], where: tuple[str | int, ...]) -> Any:
    path = path.strip()
    if message := describe_secret_problem(f"<+{path}>"):
        raise BadExpressionError(message, where)
    if not _PATH.fullmatch(path):
        raise BadExpressionError(
            f"<+{path[:_SHOWN_CHARACTERS]}> is not a path such as <+service.name>.", where
        )
    value: Any = values
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadExpressionError(_describe_unknown_path(path, values), where)
        value = value[part]
    return value


def _describe_unknown_path(path: str, values: Mapping[str, Any]) -> str:
    if len(path) > _SHOWN_CHARACTERS:
        return f"<+{path[:_SHOWN_CHARACTERS]}…> is unknown here."
    matches = difflib.get_close_matches(path, list(list_paths(values)), n=1, cutoff=0.4)
    hint = f" Did you mean <+{matches[0]}>?" if matches else ""
    return f"<+{path}> is unknown here.{hint}"


def list_paths(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield every path of a mapping of values."""
    for key, value in values.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            yield from list_paths(value, path)
        else:
            yield path


def _format_scalar(value: Any, path: str, where: tuple[str | int, ...]) -> str:
    if isinstance(value, str | int | float):
        return format_value(value)
    raise BadExpressionError(f"<+{path}> is not a text or a number, so it cannot stand inside a text.", where)
