"""Lists of mappings as rows of a form: a cell for each key, and what is not touched stays as written."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from catalog.manifests.yaml_draft import same
from pipelines.editor.cells import read_cell, shown_cell
from pipelines.editor.controls import BLANK, FieldRow, StepField, label_of
from steps.kinds.columns import Column

ROWS = ".rows"
Cells = Mapping[str, str]


class CellErrors(ValueError):
    """Something entered in an entry makes no sense; `errors` says what, by the name of the cell."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = errors


class Table(Protocol):
    """How the entries of a list become cells, and cells an entry."""

    @property
    def columns(self) -> Sequence[Column]:
        """What each entry consists of."""

    @property
    def style(self) -> str:
        """What the page calls this kind of rows."""

    def cells_of(self, entry: Any) -> dict[str, str] | None:
        """What the cells of an entry show; None for an entry that cells cannot say."""

    def entry_of(self, cells: Cells) -> Any:
        """The entry that cells say. Raises `CellErrors`."""


class Mappings:
    """Entries that are mappings with a cell for each key."""

    style = ""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns

    def cells_of(self, entry: Any) -> dict[str, str] | None:
        """Raises nothing: an entry with other keys, or with values that do not fit, has no cells."""
        if not isinstance(entry, Mapping) or not set(entry) <= {one.name for one in self.columns}:
            return None
        found = {one.name: shown_cell(one, entry.get(one.name)) for one in self.columns}
        shown = {name: text for name, text in found.items() if text is not None}
        return shown if len(shown) == len(found) else None

    def entry_of(self, cells: Cells) -> dict[str, Any]:
        """The mapping without the keys whose cells are empty. Raises `CellErrors`."""
        found: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for column in self.columns:
            try:
                value = read_cell(column, cells.get(column.name, ""))
            except ValueError as bad:
                errors[column.name] = str(bad)
            else:
                found |= {} if value is None else {column.name: value}
        if errors:
            raise CellErrors(errors)
        return found


def fits(table: Table, value: Any) -> bool:
    """Whether rows can show a value: nothing, or a list of entries that cells can say."""
    return value is None or (
        isinstance(value, list) and all(table.cells_of(one) is not None for one in value)
    )


def is_entered(name: str, entered: Mapping[str, str]) -> bool:
    """Whether a form asked for the rows of a field."""
    return f"{name}{ROWS}" in entered


def rows_of(name: str, table: Table, value: Any, errors: Mapping[str, str]) -> tuple[FieldRow, ...]:
    """The rows of a list as it is written."""
    return tuple(
        _row(name, table, str(n), table.cells_of(one) or {}, errors) for n, one in enumerate(value or ())
    )


def entered_rows(
    name: str, table: Table, entered: Mapping[str, str], errors: Mapping[str, str]
) -> tuple[FieldRow, ...]:
    """The rows of a list as somebody entered them."""
    return tuple(
        _row(name, table, str(n), cells, errors) for n, cells in numbered(name, table, entered).items()
    )


def blank_row(name: str, table: Table) -> FieldRow:
    """The row that is added, with its number to be filled in."""
    return _row(name, table, BLANK, {}, {})


def entries_from(name: str, table: Table, entered: Mapping[str, str], written: Any) -> list[Any]:
    """The list that was entered; an entry in which nothing was changed is the one that was written.

    Raises `CellErrors` with the names that the page uses.
    """
    old = written if isinstance(written, list) else []
    found, errors = [], {}
    for n, cells in numbered(name, table, entered).items():
        before = old[n] if n < len(old) else None
        if before is not None and unchanged(table, before, cells):
            found.append(before)
            continue
        if before is None and not any(cells.values()):
            continue
        try:
            found.append(laid_over(before, table.entry_of(cells)))
        except CellErrors as bad:
            errors.update({f"{name}.{n}.{key}": sentence for key, sentence in bad.errors.items()})
    if errors:
        raise CellErrors(errors)
    if isinstance(written, list):
        written[:] = found
        return written
    return found


def laid_over(old: Any, new: Any) -> Any:
    """A value in place of another: mappings stay the same objects, so that they keep their comments."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [key for key in old if key not in new]:
            del old[key]
        for key, value in new.items():
            old[key] = laid_over(old.get(key), value)
        return old
    return old if same(old, new) else new


def unchanged(table: Table, entry: Any, cells: Cells) -> bool:
    """Whether the cells of an entry still say what they showed."""
    before = table.cells_of(entry) or {}
    return all(_plain(cells.get(name, "")) == _plain(text) for name, text in before.items())


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")


def numbered(name: str, table: Table, entered: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """The cells of each row that was entered, in the order of their numbers."""
    pattern = re.compile(rf"{re.escape(name)}\.([0-9]{{1,6}})\.([A-Za-z]+)(?:\.([A-Za-z]+))?")
    kinds = {one.name: one.kind for one in table.columns}
    found: dict[int, dict[str, str]] = {}
    for key, value in entered.items():
        match = pattern.fullmatch(key)
        if not match or match[2] not in kinds:
            continue
        cells = found.setdefault(int(match[1]), {})
        if kinds[match[2]] == "checks":
            cells[match[2]] = "\n".join(filter(None, [cells.get(match[2], ""), match[3] or ""]))
        else:
            cells[match[2]] = value
    return dict(sorted(found.items()))


def _row(name: str, table: Table, number: str, cells: Cells, errors: Mapping[str, str]) -> FieldRow:
    return FieldRow(
        number,
        tuple(
            cell(one, f"{name}.{number}.{one.name}", cells.get(one.name, ""), errors) for one in table.columns
        ),
    )


def _nothing_chosen(column: Column) -> str:
    if column.is_needed:
        return "Choose one"
    return f"Default: {column.default}" if column.default else "None"


def cell(column: Column, name: str, value: str, errors: Mapping[str, str]) -> StepField:
    """The control of one cell."""
    kind, choices = column.kind, tuple((one, one) for one in column.choices)
    if kind == "flag":
        default = column.default or "no"
        kind, choices = "choice", (("", f"Default: {default}"), ("true", "Yes"), ("false", "No"))
    elif kind == "choice" and not (column.is_needed and value):
        choices = (("", _nothing_chosen(column)), *choices)
    if kind == "choice" and value and value not in dict(choices):
        choices = (*choices, (value, value))
    if kind == "checks":
        choices = tuple((one, label_of(one)) for one in column.choices)
    return StepField(
        name=name,
        key=column.name,
        label=label_of(column.name),
        kind=kind,
        value=value,
        help=column.help,
        is_required=column.is_needed,
        choices=choices,
        error=errors.get(name, ""),
        default=column.default,
    )
