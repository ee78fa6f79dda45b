"""Lists of mappings as form rows, with unchanged entries kept as written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from catalog.manifests.stores import ManifestStore, get_store, list_stores
from catalog.manifests.yaml_drafts import is_identical
from pipelines.definition.step_manifest_sources import list_step_stores
from pipelines.editor.cells import ROW_PLACEHOLDER, FieldRow, StepField, format_label, parse_cell, render_cell
from steps.kinds.registry import SpecColumn

ROWS_SUFFIX = ".rows"
CellTexts = Mapping[str, str]


class CellErrors(ValueError):
    """Invalid cells of an entry; `errors` has the messages by cell name."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = errors


class RowTable(Protocol):
    """Conversion between the entries of a list and cells."""

    @property
    def columns(self) -> Sequence[SpecColumn]:
        """Return the columns of an entry."""

    @property
    def style(self) -> str:
        """Return the CSS class of the rows."""

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of an entry; None if cells cannot show it."""

    def parse_cells(self, cells: CellTexts) -> Any:
        """Parse cells into an entry. Raises `CellErrors`."""


class MappingRows:
    """Rows of mappings with a cell for each key."""

    style = ""

    def __init__(self, columns: Sequence[SpecColumn]) -> None:
        self.columns = columns

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of an entry; None for other keys or values that do not fit."""
        if not isinstance(entry, Mapping) or not set(entry) <= {column.name for column in self.columns}:
            return None
        texts = {column.name: render_cell(column, entry.get(column.name)) for column in self.columns}
        cells = {name: text for name, text in texts.items() if text is not None}
        return cells if len(cells) == len(texts) else None

    def parse_cells(self, cells: CellTexts) -> dict[str, Any]:
        """Return the mapping without empty cells. Raises `CellErrors`."""
        entry: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for column in self.columns:
            try:
                value = parse_cell(column, cells.get(column.name, ""))
            except ValueError as bad:
                errors[column.name] = str(bad)
            else:
                entry |= {} if value is None else {column.name: value}
        if errors:
            raise CellErrors(errors)
        return entry


def is_presentable(table: RowTable, value: Any) -> bool:
    """Return whether rows can show a value: empty, or a list of entries that cells can show."""
    return value is None or (
        isinstance(value, list) and all(table.render_cells(entry) is not None for entry in value)
    )


def is_submitted(name: str, entered: Mapping[str, str]) -> bool:
    """Return whether a submitted form contains the rows of a field."""
    return f"{name}{ROWS_SUFFIX}" in entered


def build_rows(name: str, table: RowTable, value: Any, errors: Mapping[str, str]) -> tuple[FieldRow, ...]:
    """Build the rows of a list as written."""
    return tuple(
        _build_row(name, table, str(n), table.render_cells(entry) or {}, errors)
        for n, entry in enumerate(value or ())
    )


def build_entered_rows(
    name: str, table: RowTable, entered: Mapping[str, str], errors: Mapping[str, str]
) -> tuple[FieldRow, ...]:
    """Build the rows of a list as submitted."""
    return tuple(
        _build_row(name, table, str(n), cells, errors)
        for n, cells in group_cells_by_row(name, table, entered).items()
    )


def build_blank_row(name: str, table: RowTable) -> FieldRow:
    """Build the template of a new row, with a placeholder for its number."""
    return _build_row(name, table, ROW_PLACEHOLDER, {}, {})


def parse_entries(name: str, table: RowTable, entered: Mapping[str, str], value: Any) -> list[Any]:
    """Return the submitted list; unchanged entries stay as written.

    Raises `CellErrors` with the names of the form controls.
    """
    old = value if isinstance(value, list) else []
    entries, errors = [], {}
    for n, cells in group_cells_by_row(name, table, entered).items():
        before = old[n] if n < len(old) else None
        if before is not None and is_unchanged(table, before, cells):
            entries.append(before)
            continue
        if before is None and not any(cells.values()):
            continue
        try:
            entries.append(merge_value(before, table.parse_cells(cells)))
        except CellErrors as bad:
            errors.update({f"{name}.{n}.{key}": sentence for key, sentence in bad.errors.items()})
    if errors:
        raise CellErrors(errors)
    if isinstance(value, list):
        value[:] = entries
        return value
    return entries


def merge_value(old: Any, new: Any) -> Any:
    """Replace a value; mappings stay the same objects, so that they keep their comments."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [key for key in old if key not in new]:
            del old[key]
        for key, value in new.items():
            old[key] = merge_value(old.get(key), value)
        return old
    return old if is_identical(old, new) else new


def is_unchanged(table: RowTable, entry: Any, cells: CellTexts) -> bool:
    """Return whether the cells of an entry are unchanged."""
    before = table.render_cells(entry) or {}
    return all(
        _normalize_newlines(cells.get(name, "")) == _normalize_newlines(text) for name, text in before.items()
    )


def _normalize_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").rstrip("\n")


def group_cells_by_row(name: str, table: RowTable, entered: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Return the submitted cells of each row, in the order of the row numbers."""
    pattern = re.compile(rf"{re.escape(name)}\.([0-9]{{1,6}})\.([A-Za-z]+)(?:\.([A-Za-z]+))?")
    kinds = {column.name: column.kind for column in table.columns}
    rows: dict[int, dict[str, str]] = {}
    for key, value in entered.items():
        match = pattern.fullmatch(key)
        if not match or match[2] not in kinds:
            continue
        cells = rows.setdefault(int(match[1]), {})
        if kinds[match[2]] == "checks":
            cells[match[2]] = "\n".join(filter(None, [cells.get(match[2], ""), match[3] or ""]))
        else:
            cells[match[2]] = value
    return dict(sorted(rows.items()))


def _build_row(
    name: str, table: RowTable, number: str, cells: CellTexts, errors: Mapping[str, str]
) -> FieldRow:
    built = [
        build_cell(column, f"{name}.{number}.{column.name}", cells.get(column.name, ""), errors)
        for column in table.columns
    ]
    chosen = built[0].value if built else ""
    return FieldRow(
        number,
        tuple(
            replace(cell, is_hidden=bool(cell.shown_for) and chosen not in cell.shown_for) for cell in built
        ),
    )


def _format_empty_choice(column: SpecColumn) -> str:
    if column.is_needed:
        return "Choose one"
    return f"Default: {column.default}" if column.default else "None"


def build_cell(column: SpecColumn, name: str, value: str, errors: Mapping[str, str]) -> StepField:
    """Build the control of one cell."""
    kind, choices = column.kind, tuple((choice, choice) for choice in column.choices)
    if kind == "flag":
        default = column.default or "no"
        kind, choices = "choice", (("", f"Default: {default}"), ("true", "Yes"), ("false", "No"))
    elif kind == "choice" and not (column.is_needed and value):
        choices = (("", _format_empty_choice(column)), *choices)
    if kind == "choice" and value and value not in dict(choices):
        choices = (*choices, (value, value))
    if kind == "checks":
        choices = tuple((choice, format_label(choice)) for choice in column.choices)
    return StepField(
        name=name,
        key=column.name,
        shown_for=column.shown_for,
        label=format_label(column.name),
        kind=kind,
        value=value,
        help=column.help,
        is_required=column.is_needed,
        choices=choices,
        error=errors.get(name, ""),
        default=column.default,
    )


_FILE_HELP = "/folder/file.yaml in the file store, folder/file.yaml elsewhere."


class StepManifestRow:
    """A mapping of `type` and `spec`; only the cells of the selected store apply."""

    style = "own-manifest"

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed

    @property
    def columns(self) -> tuple[SpecColumn, ...]:
        """Return the columns of the store and of the fields of all stores."""
        store = SpecColumn("store", "choice", choices=tuple(list_step_stores()), is_needed=self.is_needed)
        return (store, *_build_columns([store for store in list_stores() if store.serves_steps]))

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of a mapping; None if cells cannot show it."""
        cells = {column.name: "" for column in self.columns}
        if entry == {}:
            return cells
        if not isinstance(entry, Mapping) or not isinstance(entry.get("spec"), Mapping):
            return None
        spec = dict(entry["spec"])
        files = spec.pop("files", None)
        spec |= {} if files is None else {"file": files[0] if _is_single_file(files) else files}
        columns = {column.name: column for column in self.columns}
        for name, value in {"store": entry.get("type"), **spec}.items():
            text = render_cell(columns[name], value) if name in columns else None
            if text is None:
                return None
            cells[name] = text
        return (
            cells if set(spec) <= set(self._list_store_columns(cells["store"])) and cells["store"] else None
        )

    def parse_cells(self, cells: CellTexts) -> dict[str, Any] | None:
        """Return the mapping; None without a store if it is optional. Raises `CellErrors`."""
        store = cells.get("store", "").strip()
        if not self.is_needed and not store:
            return None
        errors: dict[str, str] = {}
        spec: dict[str, Any] = {}
        columns = {column.name: column for column in self.columns}
        for name in ("store", *self._list_store_columns(store)):
            try:
                value = parse_cell(columns[name], cells.get(name, ""))
            except ValueError as bad:
                errors[name] = str(bad)
            else:
                spec |= {} if value is None else {"files" if name == "file" else name: value}
        if errors:
            raise CellErrors(errors)
        return {"type": spec.pop("store"), "spec": spec}

    def _list_store_columns(self, name: str) -> tuple[str, ...]:
        store = get_store(name)
        return (*(field.name for field in store.place_fields), "file" if store.has_paths else "content")


def _build_columns(stores: Sequence[ManifestStore]) -> Iterator[SpecColumn]:
    """Yield the cells of any store, each with the stores that it belongs to."""
    fields = {field.name: field for store in stores for field in store.place_fields}
    for name, field in fields.items():
        owners = tuple(
            store.name for store in stores if name in {place_field.name for place_field in store.place_fields}
        )
        yield SpecColumn(name, "text", field.cell_help, is_needed=field.is_needed, shown_for=owners)
    owners = tuple(store.name for store in stores if store.has_paths)
    yield SpecColumn("file", "text", _FILE_HELP, is_needed=True, shown_for=owners)
    owners = tuple(store.name for store in stores if not store.has_paths)
    yield SpecColumn("content", "lines", is_needed=True, shown_for=owners)


def _is_single_file(files: Any) -> bool:
    return isinstance(files, list) and len(files) == 1
