"""YAML and JSON documents of users, parsed strictly, with the line of every value."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from guards.input_problems import InputPath, InputRejected
from guards.yaml_parser import parse_yaml

_KEY = re.compile(r"[^:#]+:[ \t]+(?=[^\s#])")


class BadDocument(Exception):
    """A text that cannot be parsed; the message has file, line and column (from 1), and the reason."""

    def __init__(self, name: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{name}, line {line}, column {column}: {message}")
        self.name = name
        self.line = line
        self.column = column
        self.message = message


@dataclass(frozen=True)
class Document:
    """A parsed text with its value, the position of each part, and the original values.

    `written` differs from `value` after expressions are resolved. `names` maps parts to files if the
    document has several. `number_texts` holds the numbers with a spelling other than Python's.
    """

    name: str
    value: Any
    lines: Mapping[InputPath, int] = field(default_factory=dict, repr=False)
    written: Any = field(default=None, repr=False)
    columns: Mapping[InputPath, int] = field(default_factory=dict, repr=False)
    names: Mapping[InputPath, str] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)
    number_texts: Mapping[InputPath, str] = field(default_factory=dict, repr=False)

    def get_line(self, path: InputPath) -> int | None:
        """Return the line (from 1) of a path, or of its nearest ancestor in the text."""
        return self.lines.get(self._nearest(path))

    def get_column(self, path: InputPath) -> int | None:
        """Return the column (from 1) of that part."""
        return self.columns.get(self._nearest(path))

    def get_value_column(self, path: InputPath) -> int | None:
        """Return the column (from 1) of the value of a key, if both stand in one line; else of the key."""
        line, column = self.get_line(path), self.get_column(path)
        if line is None or column is None or not path or not isinstance(path[-1], str):
            return column
        texts = self.text.splitlines()
        after_key = _KEY.match(texts[line - 1][column - 1 :]) if line <= len(texts) else None
        return column + after_key.end() if after_key else column

    def get_file_name(self, path: InputPath) -> str:
        """Return the name of the file that contains a path."""
        return self.names.get(self._nearest(path), self.name)

    def _nearest(self, path: InputPath) -> InputPath:
        while path and path not in self.lines:
            path = path[:-1]
        return path

    def with_value(self, value: Any) -> "Document":
        """Return the document with a value that had its expressions resolved."""
        return replace(self, value=value, written=self.value if self.written is None else self.written)


def parse_document(text: str, name: str, *, expands_aliases: bool = False) -> Document:
    """Parse one document. Raises `BadDocument` otherwise, within milliseconds for any text."""
    try:
        parsed = parse_yaml(text, expands_aliases=expands_aliases)
    except InputRejected as error:
        fault = error.problem
        raise BadDocument(name, fault.line or 1, fault.column or 1, fault.message) from error
    return Document(
        name, parsed.value, parsed.lines, columns=parsed.columns, text=text, number_texts=parsed.number_texts
    )


def parse_manifest(text: str, name: str) -> Document:
    """Parse one manifest: a document with expanded aliases, within the size limits (R163).

    Raises `BadDocument`. The time is linear in the text's size.
    """
    return parse_document(text, name, expands_aliases=True)


def iterate_scalars(value: Any, path: InputPath = ()) -> Iterator[tuple[InputPath, Any]]:
    """Yield every scalar of a value with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from iterate_scalars(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from iterate_scalars(inner, (*path, number))
    else:
        yield path, value
