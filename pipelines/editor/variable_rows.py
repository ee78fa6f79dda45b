"""Variables of a pipeline as form rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from guards.limits import NAME_CHARACTERS
from pipelines.editor.cells import parse_cell, render_cell
from pipelines.editor.form_rows import CellErrors, CellTexts, group_cells_by_row, is_unchanged, merge_value
from pipelines.inputs.variables import (
    NUMBER,
    STRING,
    TYPES,
    PipelineVariable,
    find_variable_problems,
    format_variable_value,
)
from steps.expressions import is_path
from steps.kinds.registry import SpecColumn

_RUNTIME_INPUT = "<+input>"
_UNTYPED_VARIABLE = PipelineVariable("", NUMBER)
_COLUMNS = (
    SpecColumn("name", "text", "Letters, digits, _, $ and -, not starting with a digit.", is_needed=True),
    SpecColumn("type", "choice", choices=TYPES, default="any scalar"),
    SpecColumn("value", "text", "With <+input>, or empty with a type, the value is entered at each run."),
    SpecColumn("default", "text", "Used if the run sets no value."),
    SpecColumn("required", "flag", default="yes, without a default"),
    SpecColumn("allowedValues", "names"),
    SpecColumn("pattern", "text", "Regular expression for the whole value."),
    SpecColumn("description", "text", "Help text in the run form."),
)
_COLUMNS_BY_NAME = {one.name: one for one in _COLUMNS}
# Cells whose values are of the variable's own type.
_TYPED_COLUMNS = ("value", "default")


class VariableRows:
    """Rows of variables: pairs of a name and its definition; a plain value shows only as value."""

    style = "variables"
    columns = _COLUMNS

    def list_entries(self, value: Any) -> Any:
        """Return the pairs of a mapping; other values are returned unchanged, and no rows can show them."""
        return list(value.items()) if isinstance(value, Mapping) else value

    def render_cells(self, entry: Any) -> dict[str, str] | None:
        """Return the cells of a variable; None if cells cannot show it."""
        if not isinstance(entry, tuple):
            return None
        name, said = str(entry[0]), entry[1]
        found = dict.fromkeys(_COLUMNS_BY_NAME, "") | {"name": name}
        if not isinstance(said, Mapping):
            shown = render_cell(_COLUMNS_BY_NAME["value"], said)
            return None if said is None or shown is None else found | {"value": shown}
        said = {"type": STRING, **said}
        if said["type"] not in TYPES or not set(said) <= set(_COLUMNS_BY_NAME) - {"name"}:
            return None
        names = said.get("allowedValues")
        spoken_names = [format_variable_value(one) for one in names] if isinstance(names, list) else names
        texts = {
            key: render_cell(_COLUMNS_BY_NAME[key], one)
            for key, one in said.items()
            if key != "allowedValues"
        }
        texts["allowedValues"] = render_cell(_COLUMNS_BY_NAME["allowedValues"], spoken_names)
        if any(text is None for text in texts.values()):
            return None
        found |= {key: text for key, text in texts.items() if text is not None}
        return found if _is_round_trip(found, said) else None

    def parse_cells(self, cells: CellTexts) -> tuple[str, Any]:
        """Return the name, and a plain value or a mapping without empty cells.

        Raises `CellErrors`.
        """
        name, errors = cells.get("name", "").strip(), dict[str, str]()
        said = _parse_typed(cells, errors) if cells.get("type") else _parse_untyped(cells.get("value", ""))
        if not is_path(name) or "." in name or len(name) > NAME_CHARACTERS:
            errors["name"] = _COLUMNS_BY_NAME["name"].help if name else "Enter a value."
        if not errors:
            errors = {
                _get_problem_cell(at, cells): message
                for (_, *at), message in find_variable_problems({name: said})
            }
        if errors:
            raise CellErrors(errors)
        return name, said

    def parse_variables(self, name: str, entered: Mapping[str, str], written: Any) -> dict[str, Any] | None:
        """Return the submitted variables; unchanged ones as written, None without any.

        Raises `CellErrors` with the names of the form controls.
        """
        old = list(written.items()) if isinstance(written, dict) else []
        found: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for n, cells in group_cells_by_row(name, self, entered).items():
            before = old[n] if n < len(old) else None
            if before is None and not any(cells.values()):
                continue
            try:
                key, said = self._entry(before, cells)
            except CellErrors as bad:
                errors.update({f"{name}.{n}.{key}": sentence for key, sentence in bad.errors.items()})
                continue
            if key in found:
                errors[f"{name}.{n}.name"] = f"Two variables have the name {key}. Names must be unique."
            found[key] = said
        if errors:
            raise CellErrors(errors)
        if isinstance(written, dict):
            written.clear()
            written.update(found)
            return written or None
        return found or None

    def _entry(self, before: tuple[str, Any] | None, cells: CellTexts) -> tuple[str, Any]:
        if before is None:
            return self.parse_cells(cells)
        if is_unchanged(self, before, cells):
            return before
        shown = self.render_cells(before) or {}
        if not cells.get("type") and not shown["type"] and cells.get("value", "") == shown["value"]:
            # Only the name is another: "3" stays the text that it was.
            return self.parse_cells({**cells, "value": "x"})[0], before[1]
        name, said = self.parse_cells(cells)
        return name, merge_value(before[1], said)


def _parse_untyped(text: str) -> Any:
    """Parse a text without a type: true, false and numbers are converted."""
    text = text.strip()
    return text == "true" if text in ("true", "false") else _UNTYPED_VARIABLE.parse_value(text)


def _parse_typed(cells: CellTexts, errors: dict[str, str]) -> dict[str, Any]:
    """Parse cells into a mapping; invalid ones are added to `errors`."""
    found: dict[str, Any] = {"type": cells["type"]}
    of = PipelineVariable("", cells["type"])
    for key in list(_COLUMNS_BY_NAME)[2:]:
        text = cells.get(key, "")
        if not text.strip():
            continue
        try:
            value = parse_cell(_COLUMNS_BY_NAME[key], text)
        except ValueError as bad:
            errors[key] = str(bad)
            continue
        if key == "allowedValues":
            value = [of.parse_value(one) for one in value]
        elif key in _TYPED_COLUMNS and not value.startswith(_RUNTIME_INPUT):
            value = of.parse_value(value)
        found[key] = value
    return found


def _get_problem_cell(at: Sequence[str], cells: CellTexts) -> str:
    """Return the cell of a problem: of its key, else of the value or its replacement."""
    if at and at[0] in _COLUMNS_BY_NAME:
        return at[0]
    return "value" if cells.get("value") or not cells.get("default") else "default"


def _is_round_trip(cells: CellTexts, said: Mapping[str, Any]) -> bool:
    """Return whether cells parse back to the definition, including types: the text 3 is not the number."""
    again = _parse_typed(cells, {})
    return again == said and all(
        [type(one) for one in _as_list(value)] == [type(one) for one in _as_list(again[key])]
        for key, value in said.items()
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
