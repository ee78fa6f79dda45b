"""Reads YAML or JSON that strangers wrote: guarded, strict, and with the line of every value.

JSON is read as YAML, which also takes JSON with a forgotten quote (T09). Scalars follow YAML 1.2: `yes` is a
word, `012` is twelve, dates are text. Values are built from the parser's events, so nothing here recurses.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

MOST_BYTES = 262_144
MOST_DEPTH = 40
MOST_NODES = 20_000
_MOST_DIGITS = 40

Path = tuple[str | int, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_A_NUMBER = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_SURROGATE_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)((?:\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_CORE = "tag:yaml.org,2002:"
_COLLECTION_TAGS = (None, f"{_CORE}map", f"{_CORE}seq")


class BadDocument(Exception):
    """A text is not a document; says in which file, line and column (from 1), and why."""

    def __init__(self, name: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{name}, line {line}, column {column}: {message}")
        self.name = name
        self.line = line
        self.column = column
        self.message = message


@dataclass(frozen=True)
class Document:
    """A parsed text: its value, on which line each part of it stands, and what was written there.

    `written` differs from `value` once expressions were filled in.
    """

    name: str
    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)
    written: Any = field(default=None, repr=False)

    def line_of(self, path: Path) -> int | None:
        """The line (from 1) of a path, or of the nearest part around it that is in the text."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def with_value(self, value: Any) -> "Document":
        """The same text after its expressions were resolved."""
        return replace(self, value=value, written=self.value if self.written is None else self.written)


def parse(text: str, name: str) -> Document:
    """Read one document. Raises `BadDocument` on anything else, in milliseconds whatever the text is."""
    _refuse_size(text, name)
    builder = _Builder(name)
    try:
        for event in yaml.parse(_readable(text), Loader=_LOADER):
            builder.take(event)
    except yaml.reader.ReaderError as problem:
        line, column = _place(text, problem.position)
        raise BadDocument(
            name, line, column, f"the character U+{problem.character:04X} is not allowed"
        ) from problem
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise BadDocument(name, line, column, _in_plain_words(problem)) from problem
    return builder.document()


def _refuse_size(text: str, name: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as problem:
        line, column = _place(text, problem.start)
        raise BadDocument(name, line, column, "half of a surrogate pair is not a character") from problem
    if size > MOST_BYTES:
        raise BadDocument(name, 1, 1, f"the text is larger than {MOST_BYTES // 1024} KiB")


def _readable(text: str) -> str:
    """JSON writes characters beyond the 16-bit range as two escapes, which YAML does not know."""
    if "\\u" not in text or not text.lstrip().startswith(("{", "[")):
        return text
    return _SURROGATE_PAIR.sub(lambda pair: pair[1] + json.loads(f'"{pair[2]}"'), text)


def _place(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _in_plain_words(problem: yaml.MarkedYAMLError) -> str:
    said = problem.problem or "this is not YAML"
    if "cannot start any token" in said:
        return "a tab or a reserved character starts this value; indent with spaces, or put it in quotes"
    if "mapping values are not allowed" in said:
        return "a second colon in one line, or wrong indentation; quote the value if the colon belongs to it"
    return f"{said} ({problem.context})" if problem.context else said


class _Open:
    """A mapping or list whose end has not come yet."""

    def __init__(self, path: Path, value: dict[str, Any] | list[Any]) -> None:
        self.path = path
        self.value = value
        self.key: str | None = None


class _Builder:
    """Turns the parser's events into values, refusing what a specification does not need."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: list[_Open] = []
        self.lines: dict[Path, int] = {}
        self.documents = 0
        self.nodes = 0
        self.value: Any = None

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.open.pop()
        elif isinstance(event, yaml.AliasEvent):
            raise self._bad(event, "aliases (*name) are not allowed; write the value out")
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self._bad(event, "only one document may be in a file")

    def document(self) -> Document:
        if self.documents == 0 or self.value is None:
            raise BadDocument(self.name, 1, 1, "the document is empty")
        return Document(self.name, self.value, self.lines)

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        if event.tag not in _COLLECTION_TAGS:
            raise self._bad(event, f"the tag {event.tag} is not allowed")
        if len(self.open) >= MOST_DEPTH:
            raise self._bad(event, f"nested deeper than {MOST_DEPTH} levels")
        if self._expects_key():
            raise self._bad(event, "a key must be a plain word")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.open.append(_Open(self._place_value(value, event), value))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if "\0" in event.value:
            raise self._bad(event, "a NUL character is not allowed")
        if self._expects_key():
            self._take_key(event)
        else:
            self._place_value(self._value_of(event), event)

    def _expects_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].value, dict) and self.open[-1].key is None

    def _take_key(self, event: yaml.ScalarEvent) -> None:
        inner = self.open[-1]
        if event.value in inner.value:
            first = self.lines[(*inner.path, event.value)]
            raise self._bad(event, f'the key "{event.value}" is already given on line {first}')
        inner.key = event.value
        # The key's line, not the value's: that is where a person looks for it.
        self.lines[(*inner.path, event.value)] = _start_of(event)[0]

    def _place_value(self, value: Any, event: yaml.NodeEvent) -> Path:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise self._bad(event, f"more than {MOST_NODES} values")
        if not self.open:
            self.value = value
            self.lines[()] = _start_of(event)[0]
            return ()
        inner = self.open[-1]
        if isinstance(inner.value, dict):
            path = (*inner.path, str(inner.key))
            inner.value[str(inner.key)] = value
            inner.key = None
        else:
            path = (*inner.path, len(inner.value))
            inner.value.append(value)
        self.lines.setdefault(path, _start_of(event)[0])
        return path

    def _value_of(self, event: yaml.ScalarEvent) -> Any:
        if event.tag not in (None, f"{_CORE}str", "!"):
            raise self._bad(event, f"the tag {event.tag} is not allowed")
        is_plain = event.implicit[0] and event.tag is None
        return self._plain(event) if is_plain else event.value

    def _plain(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _NOT_A_NUMBER.match(text):
            raise self._bad(event, f"{text} is not a number; put it in quotes if it is text")
        if not (_INTEGER.match(text) or _BASED.match(text) or _FLOAT.match(text)):
            return text
        number = _number(text)
        if number is None:
            raise self._bad(event, "the number is too large")
        return number

    def _bad(self, event: yaml.Event, message: str) -> BadDocument:
        return BadDocument(self.name, *_start_of(event), message)


def _start_of(event: yaml.Event) -> tuple[int, int]:
    """Line and column of an event, from 1; the parser counts from 0."""
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _number(text: str) -> int | float | None:
    """The number of a text that looks like one; None if it is too large to be meant."""
    if len(text) > _MOST_DIGITS:
        return None
    if _BASED.match(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _INTEGER.match(text):
        return int(text)
    number = float(text)
    return None if number in (float("inf"), float("-inf")) else number


def values_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar of a value with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from values_of(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from values_of(inner, (*path, number))
    else:
        yield path, value
