"""Cells of form rows: rendering of values, and parsing of input."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from steps.expressions import format_value, has_expression
from steps.kinds.registry import SpecColumn

_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
# Placeholder that the page replaces with the number of a new row.
ROW_PLACEHOLDER = "__prefix__"


@dataclass(frozen=True)
class StepField:
    """A field of a form.

    `kind` is text, lines, number, choice, names, pairs, checks, yaml; with rows: rows, item.
    """

    name: str
    label: str
    kind: str
    value: str = ""
    help: str = ""
    is_required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    error: str = ""
    default: str = ""
    key: str = ""
    """Key of a cell in its entry."""
    shown_for: tuple[str, ...] = ()
    """Values of the first cell of the entry for which the page shows this cell; empty for all."""
    is_hidden: bool = False
    rows: tuple["FieldRow", ...] = ()
    blank: "FieldRow | None" = None
    style: str = ""
    """CSS class of the rows."""
    new_noun: str = ""
    """What can be created for the field, such as connector."""

    @property
    def id(self) -> str:
        """Return the HTML id of the control."""
        is_row = ROW_PLACEHOLDER in self.name
        name = self.name.replace(".", "-") if is_row else _SEPARATORS.sub("-", self.name)
        return f"visual-{name}"

    @property
    def total(self) -> int:
        """Return the number of the next new row."""
        return max((int(row.number) for row in self.rows), default=-1) + 1

    @property
    def is_wide(self) -> bool:
        """Return whether it takes a full line of the form."""
        return self.kind in ("yaml", "lines", "rows", "item", "checks")

    @property
    def checked(self) -> tuple[str, ...]:
        """Return the selected checkboxes."""
        return tuple(self.value.split("\n")) if self.value else ()


@dataclass(frozen=True)
class FieldRow:
    """The controls of one entry of a list."""

    number: str
    cells: tuple[StepField, ...]


def format_label(name: str) -> str:
    """Return the label of a key: targetGroupARN becomes Target group ARN."""
    words = _CAPITALS.sub(" ", name).replace("_", " ")
    return words[:1].upper() + words[1:].lower().replace(" arn", " ARN").replace("url", "URL")


_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_FLAG_TEXTS = {True: "true", False: "false"}


def render_cell(column: SpecColumn, value: Any) -> str | None:
    """Return the text of a value, "" for none; None if this kind of cell cannot show it."""
    return "" if value is None else _RENDERERS.get(column.kind, _render_scalar)(value)


def parse_cell(column: SpecColumn, text: str) -> Any:
    """Parse the text of a cell, None if empty. Raises `ValueError` with a message."""
    text = text.replace("\r\n", "\n")
    if not text.strip():
        if column.is_needed:
            raise ValueError("Enter a value.")
        return None
    return _PARSERS.get(column.kind, _parse_text)(text, column)


def _render_scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return _FLAG_TEXTS[value]
    return format_value(value) if isinstance(value, str | int | float) and "\n" not in str(value) else None


def _render_lines(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _render_flag(value: Any) -> str | None:
    return _FLAG_TEXTS[value] if isinstance(value, bool) else None


def _render_number(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return format_value(value) if is_number or (isinstance(value, str) and has_expression(value)) else None


def _render_names(value: Any) -> str | None:
    is_plain = isinstance(value, list) and all(
        isinstance(name, str) and name and name == name.strip() and "\n" not in name for name in value
    )
    return "\n".join(value) if is_plain else None


def _render_pairs(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    pairs = [(str(name), _render_scalar(item)) for name, item in value.items()]
    if any(text is None or "=" in name or name != name.strip() for name, text in pairs):
        return None
    return "\n".join(f"{name}={text}" for name, text in pairs)


def _parse_text(text: str, column: SpecColumn) -> str:
    return text.strip()


def _parse_lines(text: str, column: SpecColumn) -> str:
    return text


def _parse_choice(text: str, column: SpecColumn) -> str:
    if text not in column.choices:
        raise ValueError(f"Choose one of {', '.join(column.choices)}.")
    return text


def _parse_flag(text: str, column: SpecColumn) -> bool:
    if text not in _FLAG_TEXTS.values():
        raise ValueError("Choose yes or no.")
    return text == "true"


def _parse_number(text: str, column: SpecColumn) -> Any:
    text = text.strip()
    if has_expression(text):
        return text
    if not _NUMBER_PATTERN.fullmatch(text):
        raise ValueError("Enter a number.")
    return float(text) if "." in text else int(text)


def _parse_names(text: str, column: SpecColumn) -> list[str]:
    return list(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip()))


def _parse_pairs(text: str, column: SpecColumn) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for line in _parse_names(text, column):
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise ValueError(f"Enter one name=value per line; {line[:40]!r} is not valid.")
        pairs[name.strip()] = value.strip()
    return pairs


_RENDERERS: dict[str, Callable[[Any], str | None]] = {
    "lines": _render_lines,
    "flag": _render_flag,
    "number": _render_number,
    "names": _render_names,
    "checks": _render_names,
    "pairs": _render_pairs,
}
_PARSERS: dict[str, Callable[[str, SpecColumn], Any]] = {
    "lines": _parse_lines,
    "choice": _parse_choice,
    "flag": _parse_flag,
    "number": _parse_number,
    "names": _parse_names,
    "checks": _parse_names,
    "pairs": _parse_pairs,
}
