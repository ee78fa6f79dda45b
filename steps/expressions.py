"""Expressions such as `<+infra.cluster>` and secret references: lookup by path, no evaluation."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guards.limits import EXPRESSION_CHARACTERS, EXPRESSION_RESULT_CHARACTERS

EXPRESSION_PATTERN = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_SECRET_PATTERN = re.compile(r"\s*secrets\.getValue\(\s*\"([\w.-]{1,300})\"\s*\)\s*")
_ADVICE_ON_SECRETS = (
    "It may stand in the script of ShellScript, and be the value of a step's variable, of a header of Http"
    " and of a parameter of CreateStack."
)
ValueLookup = Callable[[str], Any]


def parse_secret_reference(text: str) -> str:
    """The reference of the secret that a text is, as `<+secrets.getValue("account.token")>`; or nothing."""
    whole = EXPRESSION_PATTERN.fullmatch(text)
    named = _SECRET_PATTERN.fullmatch(whole[1]) if whole else None
    return named[1] if named else ""


def find_expressions(text: str) -> Iterator[str]:
    """Yield what stands between <+ and > of each expression in a text."""
    return (match[1].strip() for match in EXPRESSION_PATTERN.finditer(text))


def is_secret_expression(expression: str) -> bool:
    """Return whether an expression means a secret, also where it is not written as it should be."""
    return expression.startswith("secrets.")


def describe_secret_problem(text: str, advice: str = _ADVICE_ON_SECRETS) -> str:
    """What is said of a secret in a text that may hold none; empty where there is none in it."""
    named = next(filter(is_secret_expression, find_expressions(text)), "")
    return f"<+{named}> cannot stand here: people could read the secret. {advice}" if named else ""


def render_expressions(text: str, resolve_expression: ValueLookup) -> str:
    """Return a text with its expressions as text."""
    return EXPRESSION_PATTERN.sub(lambda match: format_value(resolve_expression(match[1].strip())), text)


def format_value(value: Any) -> str:
    """Return a value as programs write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def find_secret_references(*texts: str) -> list[str]:
    """Return the references of all secrets that texts name."""
    inside = (one for text in texts for one in find_expressions(text))
    return [found[1] for one in inside if (found := _SECRET_PATTERN.fullmatch(one))]


_OPEN = "<+"
# Nobody means a longer path, and comparing it with every known one takes seconds.
_SHOWN_CHARACTERS = 200
_PATH_EXPRESSION = re.compile(r"<\+([^<>]*)>")
_PATH = re.compile(r"[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*")


class BadExpressionError(ValueError):
    """An expression cannot be read or names nothing; `where` is its path inside the document."""

    def __init__(self, message: str, where: tuple[str | int, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.where = where


IsDeferred = Callable[[str], bool]
"""Whether a path is only known later, so that its expression stays as it is written."""


def resolve_expressions(
    value: Any,
    known: Mapping[str, Any],
    where: tuple[str | int, ...] = (),
    *,
    later: IsDeferred = lambda path: False,
) -> Any:
    """Fill in every expression inside a parsed document.

    An expression that is all of a text keeps the type of its value; inside a longer text it becomes text.
    What comes out of a value is never scanned again. Raises `BadExpressionError`.
    """
    return _Resolver(known, later).fill(value, where)


def find_paths(value: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the paths that the expressions of a document name, each with the place of its text in it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from find_paths(item, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_paths(item, (*where, index))
    elif isinstance(value, str) and _OPEN in value:
        for match in _PATH_EXPRESSION.finditer(value):
            yield where, match[1].strip()


def get_path_value(path: str, known: Mapping[str, Any]) -> Any:
    """What a path comes to. Raises `BadExpressionError`."""
    return _get_value(path, known, ())


def is_path(text: str) -> bool:
    """Return whether an expression can name this: words of letters, digits, _, $ and -, joined by dots."""
    return _PATH.fullmatch(text) is not None


def has_expression(text: str) -> bool:
    """Return whether a text holds an expression."""
    return _OPEN in text


class _Resolver:
    """One document being filled in; what all of its values together may come to is used up."""

    def __init__(self, known: Mapping[str, Any], later: IsDeferred) -> None:
        self.known = known
        self.later = later
        self.left = int(EXPRESSION_RESULT_CHARACTERS)

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
        if whole := _PATH_EXPRESSION.fullmatch(text):
            return text if self.later(whole[1].strip()) else _get_value(whole[1], self.known, where)
        found = list(_PATH_EXPRESSION.finditer(text))
        if text.count(_OPEN) != len(found):
            raise BadExpressionError(_find_unclosed(text, found), where)
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
        return _format_scalar(_get_value(match[1], self.known, where), match[1], where)

    def _spend(self, characters: int, where: tuple[str | int, ...]) -> None:
        self.left -= characters
        if self.left < 0:
            raise BadExpressionError(
                f"The values of all expressions together may have {EXPRESSION_RESULT_CHARACTERS} at most.",
                where,
            )


def _find_unclosed(text: str, found: list[re.Match[str]]) -> str:
    ended = {match.start() for match in found}
    starts = (match.start() for match in re.finditer(re.escape(_OPEN), text))
    at = next(start for start in starts if start not in ended)
    return f"The expression in column {at + 1} has no end: write it as <+path.to.value>."


def _get_value(path: str, known: Mapping[str, Any], where: tuple[str | int, ...]) -> Any:
    path = path.strip()
    if message := describe_secret_problem(f"<+{path}>"):
        raise BadExpressionError(message, where)
    if not _PATH.fullmatch(path):
        raise BadExpressionError(
            f"<+{path[:_SHOWN_CHARACTERS]}> is not a path such as <+service.name>.", where
        )
    value: Any = known
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise BadExpressionError(_describe_unknown_path(path, known), where)
        value = value[part]
    return value


def _describe_unknown_path(path: str, known: Mapping[str, Any]) -> str:
    if len(path) > _SHOWN_CHARACTERS:
        return f"<+{path[:_SHOWN_CHARACTERS]}…> is unknown here."
    near = difflib.get_close_matches(path, list(list_paths(known)), n=1, cutoff=0.4)
    hint = f" Did you mean <+{near[0]}>?" if near else ""
    return f"<+{path}> is unknown here.{hint}"


def list_paths(known: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Yield every path that can be looked up."""
    for key, value in known.items():
        here = f"{before}.{key}" if before else str(key)
        if isinstance(value, Mapping) and value:
            yield from list_paths(value, here)
        else:
            yield here


def _format_scalar(value: Any, path: str, where: tuple[str | int, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadExpressionError(f"<+{path}> is not a text or a number, so it cannot stand inside a text.", where)
