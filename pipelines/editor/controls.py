"""Controls of the forms of the visual editor: fields and rows of fields."""

import re
from dataclasses import dataclass

_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
# What the page puts in place of the number of a row that is added.
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
    """Of a cell: the key in its entry."""
    shown_for: tuple[str, ...] = ()
    """Of a cell: the values of the entry's first cell with which the page shows it; all where empty."""
    is_hidden: bool = False
    rows: tuple["FieldRow", ...] = ()
    blank: "FieldRow | None" = None
    style: str = ""
    """What the page shows of the cells depends on it."""

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
