"""Manifest of a step as a form row: store, and location in the store."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog.manifests.stores import ManifestStore, get_store, list_stores
from pipelines.definition.step_manifest_sources import list_step_stores
from pipelines.editor.cells import parse_cell, render_cell
from pipelines.editor.form_rows import CellErrors, CellTexts
from steps.kinds.registry import SpecColumn

_FILE_HELP = "/folder/file.yaml in the file store, folder/file.yaml elsewhere."


class StepManifestRow:
    """A mapping of `type` and `spec`; only the cells of the selected store apply."""

    style = "own-manifest"

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed

    @property
    def columns(self) -> tuple[SpecColumn, ...]:
        """Return the store, and all inputs that any store asks for."""
        store = SpecColumn("store", "choice", choices=tuple(list_step_stores()), is_needed=self.is_needed)
        return (store, *_build_columns([store for store in list_stores() if store.serves_steps]))

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of a mapping; None if cells cannot show it."""
        found = {one.name: "" for one in self.columns}
        if entry == {}:
            return found
        if not isinstance(entry, Mapping) or not isinstance(entry.get("spec"), Mapping):
            return None
        spec = dict(entry["spec"])
        files = spec.pop("files", None)
        spec |= {} if files is None else {"file": files[0] if _is_single_file(files) else files}
        columns = {one.name: one for one in self.columns}
        for name, value in {"store": entry.get("type"), **spec}.items():
            shown = render_cell(columns[name], value) if name in columns else None
            if shown is None:
                return None
            found[name] = shown
        return (
            found if set(spec) <= set(self._list_store_columns(found["store"])) and found["store"] else None
        )

    def parse_cells(self, cells: CellTexts) -> dict[str, Any] | None:
        """Return the mapping; None without a store if it is optional. Raises `CellErrors`."""
        store = cells.get("store", "")
        if not self.is_needed and not store:
            return None
        errors: dict[str, str] = {}
        spec: dict[str, Any] = {}
        columns = {one.name: one for one in self.columns}
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
        return (*(one.name for one in store.place_fields), "file" if store.has_paths else "content")


def _build_columns(stores: Sequence[ManifestStore]) -> Iterator[SpecColumn]:
    """Yield the cells of any store, each with the stores that it belongs to."""
    fields = {field.name: field for store in stores for field in store.place_fields}
    for name, field in fields.items():
        owners = tuple(store.name for store in stores if name in {one.name for one in store.place_fields})
        yield SpecColumn(name, "text", field.cell_help, is_needed=field.is_needed, shown_for=owners)
    owners = tuple(store.name for store in stores if store.has_paths)
    yield SpecColumn("file", "text", _FILE_HELP, is_needed=True, shown_for=owners)
    owners = tuple(store.name for store in stores if not store.has_paths)
    yield SpecColumn("content", "lines", is_needed=True, shown_for=owners)


def _is_single_file(files: Any) -> bool:
    return isinstance(files, list) and len(files) == 1
