"""Expressions such as `<+infra.cluster>`: a small path language, looked up, never evaluated (DESIGN 5)."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guards.limits import EXPRESSION_CHARACTERS, EXPRESSIONS_RESULT
from steps.variables import secret_problem

_OPEN = "<+"
# Nobody means a longer path, and comparing it with every known one takes seconds.
_SHOWN = 200
_EXPRESSION = re.compile(r"<\+([^<>]*)>")
_PATH = re.compile(r"[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*")


class BadExpressionError(ValueError):
    """An expression cannot be read or names nothing; `where` is its path inside the document."""

    def __init__(self, message: str, where: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.where = where


Later = Callable[[str], bool]
"""Whether a path is only known later, so that its expression stays as it is written."""


def resolve(
    value: Any,
    known: Mapping[str, Any],
    where: tuple[str | int, ...] = (),
    *,
    later: Later = lambda path: False,
) -> Any:
    """Fill in every expression inside a parsed document.

    An expression that is all of a text keeps the type of its value; inside a longer text it becomes text.
    What comes out of a value is never scanned again. Raises `BadExpressionError`.
    """
    return _Filling(known, later).fill(value, where)


def named_in(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The paths that the expressions of a document name, each with the place of its text in it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from named_in(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from named_in(item, (*where, index))
    elif isinstance(value, str) and _OPEN in value:
        for match in _EXPRESSION.finditer(value):
            yield where, match[1].strip()


def value_at(path: str, known: Mapping[str, Any]) -> Any:
    """What a path comes to. Raises `BadExpressionError`."""
    return _look_up(path, known, ())


def is_path(text: str) -> bool:
    """Whether an expression can name this: words of letters, digits, _, $ and -, joined by dots."""
    return _PATH.fullmatch(text) is not None


def has_expression(text: str) -> bool:
    """Whether a text holds an expression."""
    return _OPEN in text


class _Filling:
    """One document being filled in; what all of its values together may come to is used up."""

    def __init__(self, known: Mapping[str, Any], later: Later) -> None:
        self.known = known
        self.later = later
        self.left = int(EXPRESSIONS_RESULT)

    def fill(self, value: Any, where: tuple[str | int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: self.fill(item, (*where, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, (*where, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and _OPEN in value:
            return self._fill_text(value, where)
        return value

    def _fill_text(self, text: str, where: tuple[str | int, ...]) -> Any:
        if len(text) > EXPRESSION_CHARACTERS:
            raise BadExpressionError(
                f"A text with an expression may have {EXPRESSION_CHARACTERS} at most.", where
            )
        if whole := _EXPRESSION.fullmatch(text):
            return text if self.later(whole[1].strip()) else _look_up(whole[1], self.known, where)
        found = list(_EXPRESSION.finditer(text))
        if text.count(_OPEN) != len(found):
            raise BadExpressionError(_unended(text, found), where)
        parts, end = [], 0
        for match in found:
            value = self._text_of(match, where)
            self._spend(len(value), where)
            parts += [text[end : match.start()], value]
            end = match.end()
        return "".join([*parts, text[end:]])

    def _text_of(self, match: re.Match[str], where: tuple[str | int, ...]) -> str:
        if self.later(match[1].strip()):
            return match[0]
        return _as_text(_look_up(match[1], self.known, where), match[1], where)

    def _spend(self, characters: int, where: tuple[str | int, ...]) -> None:
        self.left -= characters
        if self.left < 0:
            raise BadExpressionError(
                f"The values of all expressions together may have {EXPRESSIONS_RESULT} at most.", where
            )


def _unended(text: str, found: list[re.Match[str]]) -> str:
    ended = {match.start() for match in found}
    starts = (match.start() for match in re.finditer(re.escape(_OPEN), text))
    at = next(start for start in starts if start not in ended)
    return f"The expression in column {at + 1} has no end: write it as <+path.to.value>."


def _look_up(path: str, known: Mapping[str, Any], where: tuple[str | int, ...]) -> Any:
    path = path.strip()
    if message := secret_problem(f"<+{path}>"):
        raise BadExpressionError(message, where)
    if not _PATH.fullmatch(path):
        raise BadExpressionError(f"<+{path[:_SHOWN]}> is not a path such as <+service.name>.", where)
    value: Any = known
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadExpressionError(_unknown(path, known), where)
        value = value[part]
    return value


def _unknown(path: str, known: Mapping[str, Any]) -> str:
    if len(path) > _SHOWN:
        return f"<+{path[:_SHOWN]}…> is not known here."
    near = difflib.get_close_matches(path, list(paths(known)), n=1, cutoff=0.4)
    hint = f" Did you mean <+{near[0]}>?" if near else ""
    return f"<+{path}> is not known here.{hint}"


def paths(known: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Every path that can be looked up."""
    for key, value in known.items():
        here = f"{before}.{key}" if before else str(key)
        if isinstance(value, Mapping) and value:
            yield from paths(value, here)
        else:
            yield here


def _as_text(value: Any, path: str, where: tuple[str | int, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadExpressionError(f"<+{path}> is not a text or a number, so it cannot stand inside a text.", where)
