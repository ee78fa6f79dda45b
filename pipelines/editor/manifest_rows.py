"""Manifest of a step as a form row: store, and location in the store."""

from collections.abc import Mapping
from typing import Any

from catalog.manifests.locations import GIT, S3
from pipelines.definition.step_manifest_sources import INLINE, list_step_stores
from pipelines.editor.cells import parse_cell, render_cell
from pipelines.editor.form_rows import CellErrors, CellTexts
from steps.kinds.registry import SpecColumn

_FILE_COLUMN = SpecColumn(
    "file", "text", "/folder/file.yaml in the file store, folder/file.yaml elsewhere.", is_needed=True
)
_CONTENT_COLUMN = SpecColumn("content", "lines", is_needed=True)
_CONNECTOR_COLUMN = SpecColumn("connector", "text", "Its identifier, such as account.git.", is_needed=True)
_LOCATION_COLUMNS = tuple(
    SpecColumn(name, "text", help)
    for name, help in (
        ("branch", "Or a tag, or a commit."),
        ("tag", ""),
        ("commit", "40 hexadecimal digits."),
        ("repository", "Of an account's connector the repository."),
        ("region", ""),
        ("bucket", ""),
    )
)
_GIT_COLUMNS, _S3_COLUMNS = ("branch", "tag", "commit", "repository"), ("region", "bucket")
_STORE_COLUMNS = {
    INLINE: ("content",),
    GIT: ("connector", *_GIT_COLUMNS, "file"),
    S3: ("connector", *_S3_COLUMNS, "file"),
}


class StepManifestRow:
    """One mapping of `type` and `spec`; of the cells only those count that the store asks for."""

    style = "own-manifest"

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed

    @property
    def columns(self) -> tuple[SpecColumn, ...]:
        """The store, and all that any store asks for."""
        store = SpecColumn("store", "choice", choices=tuple(list_step_stores()), is_needed=self.is_needed)
        return (store, _CONNECTOR_COLUMN, *_LOCATION_COLUMNS, _FILE_COLUMN, _CONTENT_COLUMN)

    def cells_of(self, entry: Any) -> dict[str, str] | None:
        """None for what is written in a way that cells cannot say."""
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
        return found if set(spec) <= set(self._asked(found["store"])) and found["store"] else None

    def entry_of(self, cells: CellTexts) -> dict[str, Any] | None:
        """None without a store, where there need be none. Raises `CellErrors`."""
        store = cells.get("store", "")
        if not self.is_needed and not store:
            return None
        errors: dict[str, str] = {}
        spec: dict[str, Any] = {}
        columns = {one.name: one for one in self.columns}
        for name in ("store", *self._asked(store)):
            try:
                value = parse_cell(columns[name], cells.get(name, ""))
            except ValueError as bad:
                errors[name] = str(bad)
            else:
                spec |= {} if value is None else {"files" if name == "file" else name: value}
        if errors:
            raise CellErrors(errors)
        return {"type": spec.pop("store"), "spec": spec}

    def _asked(self, store: str) -> tuple[str, ...]:
        return _STORE_COLUMNS.get(store, ("file",))


def _is_single_file(files: Any) -> bool:
    return isinstance(files, list) and len(files) == 1
