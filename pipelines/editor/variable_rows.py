"""The variables of a pipeline as rows of a form: a plain value, or a type with all that goes with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from guards.limits import NAME_CHARACTERS
from pipelines.editor.cells import read_cell, shown_cell
from pipelines.editor.tables import CellErrors, Cells, laid_over, numbered, unchanged
from pipelines.inputs.variables import NUMBER, STRING, TYPES, Variable, spoken, variable_faults
from steps.expressions import is_path
from steps.kinds.columns import Column

_ASKED = "<+input>"
_PLAIN = Variable("", NUMBER)
_COLUMNS = (
    Column("name", "text", "Letters, digits, _, $ and -, and no digit first.", is_needed=True),
    Column("type", "choice", choices=TYPES, default="any plain value"),
    Column("value", "text", "<+input> is asked for at each run. Empty with a type: the same."),
    Column("default", "text", "Counts where a run says nothing."),
    Column("required", "flag", default="yes, without a default"),
    Column("allowedValues", "names"),
    Column("pattern", "text", "What all of the value must fit."),
    Column("description", "text", "What the form of a run says of it."),
)
_CELLS = {one.name: one for one in _COLUMNS}
# Cells whose values are of the variable's own type.
_VALUES = ("value", "default")


class VariableRows:
    """Entries are pairs of a name and what is written for it; of a plain value only that counts."""

    style = "variables"
    columns = _COLUMNS

    def listed(self, value: Any) -> Any:
        """The pairs of a mapping; anything else as it is, which no rows can show."""
        return list(value.items()) if isinstance(value, Mapping) else value

    def cells_of(self, entry: Any) -> dict[str, str] | None:
        """None for what is written in a way that cells cannot say."""
        if not isinstance(entry, tuple):
            return None
        name, said = str(entry[0]), entry[1]
        found = dict.fromkeys(_CELLS, "") | {"name": name}
        if not isinstance(said, Mapping):
            shown = shown_cell(_CELLS["value"], said)
            return None if said is None or shown is None else found | {"value": shown}
        said = {"type": STRING, **said}
        if said["type"] not in TYPES or not set(said) <= set(_CELLS) - {"name"}:
            return None
        names = said.get("allowedValues")
        spoken_names = [spoken(one) for one in names] if isinstance(names, list) else names
        texts = {key: shown_cell(_CELLS[key], one) for key, one in said.items() if key != "allowedValues"}
        texts["allowedValues"] = shown_cell(_CELLS["allowedValues"], spoken_names)
        if any(text is None for text in texts.values()):
            return None
        found |= {key: text for key, text in texts.items() if text is not None}
        return found if _says(found, said) else None

    def entry_of(self, cells: Cells) -> tuple[str, Any]:
        """The name, and a plain value or a mapping without the keys whose cells are empty.

        Raises `CellErrors`.
        """
        name, errors = cells.get("name", "").strip(), dict[str, str]()
        said = _typed(cells, errors) if cells.get("type") else _plain(cells.get("value", ""))
        if not is_path(name) or "." in name or len(name) > NAME_CHARACTERS:
            errors["name"] = _CELLS["name"].help if name else "This is needed."
        if not errors:
            errors = {_cell_of(at, cells): message for (_, *at), message in variable_faults({name: said})}
        if errors:
            raise CellErrors(errors)
        return name, said

    def gathered(self, name: str, entered: Mapping[str, str], written: Any) -> dict[str, Any] | None:
        """The variables that were entered; what was not touched is as it was written, None without any.

        Raises `CellErrors` with the names that the page uses.
        """
        old = list(written.items()) if isinstance(written, dict) else []
        found: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for n, cells in numbered(name, self, entered).items():
            before = old[n] if n < len(old) else None
            if before is None and not any(cells.values()):
                continue
            try:
                key, said = self._entry(before, cells)
            except CellErrors as bad:
                errors.update({f"{name}.{n}.{key}": sentence for key, sentence in bad.errors.items()})
                continue
            if key in found:
                errors[f"{name}.{n}.name"] = f"There are two variables called {key}."
            found[key] = said
        if errors:
            raise CellErrors(errors)
        if isinstance(written, dict):
            written.clear()
            written.update(found)
            return written or None
        return found or None

    def _entry(self, before: tuple[str, Any] | None, cells: Cells) -> tuple[str, Any]:
        if before is None:
            return self.entry_of(cells)
        if unchanged(self, before, cells):
            return before
        shown = self.cells_of(before) or {}
        if not cells.get("type") and not shown["type"] and cells.get("value", "") == shown["value"]:
            # Only the name is another: "3" stays the text that it was.
            return self.entry_of({**cells, "value": "x"})[0], before[1]
        name, said = self.entry_of(cells)
        return name, laid_over(before[1], said)


def _plain(text: str) -> Any:
    """What a text means without a type: true, false and numbers are read, all else is a text."""
    text = text.strip()
    return text == "true" if text in ("true", "false") else _PLAIN.entered(text)


def _typed(cells: Cells, errors: dict[str, str]) -> dict[str, Any]:
    """A mapping of what cells say; what cannot be read is noted in `errors`."""
    found: dict[str, Any] = {"type": cells["type"]}
    of = Variable("", cells["type"])
    for key in list(_CELLS)[2:]:
        text = cells.get(key, "")
        if not text.strip():
            continue
        try:
            value = read_cell(_CELLS[key], text)
        except ValueError as bad:
            errors[key] = str(bad)
            continue
        if key == "allowedValues":
            value = [of.entered(one) for one in value]
        elif key in _VALUES and not value.startswith(_ASKED):
            value = of.entered(value)
        found[key] = value
    return found


def _cell_of(at: Sequence[str], cells: Cells) -> str:
    """The cell that a fault is about: that of its key, else of the value, or of what counts in its place."""
    if at and at[0] in _CELLS:
        return at[0]
    return "value" if cells.get("value") or not cells.get("default") else "default"


def _says(cells: Cells, said: Mapping[str, Any]) -> bool:
    """Whether cells come to just what is written, types included: the text 3 is not the number."""
    again = _typed(cells, {})
    return again == said and all(
        [type(one) for one in _all(value)] == [type(one) for one in _all(again[key])]
        for key, value in said.items()
    )


def _all(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
