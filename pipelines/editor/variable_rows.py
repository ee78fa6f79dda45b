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
_COLUMNS_BY_NAME = {column.name: column for column in _COLUMNS}
# Cells whose values have the type of the variable.
_TYPED_COLUMNS = ("value", "default")
# Keys of a definition, which a value without a type does not have.
_DEFINITION_COLUMNS = ("default", "required", "allowedValues", "pattern", "description")


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
        name, definition = str(entry[0]), entry[1]
        cells = dict.fromkeys(_COLUMNS_BY_NAME, "") | {"name": name}
        if not isinstance(definition, Mapping):
            value_text = render_cell(_COLUMNS_BY_NAME["value"], definition)
            return None if definition is None or value_text is None else cells | {"value": value_text}
        definition = {"type": STRING, **definition}
        if definition["type"] not in TYPES or not set(definition) <= set(_COLUMNS_BY_NAME) - {"name"}:
            return None
        names = definition.get("allowedValues")
        formatted_names = (
            [format_variable_value(choice) for choice in names] if isinstance(names, list) else names
        )
        texts = {
            key: render_cell(_COLUMNS_BY_NAME[key], part)
            for key, part in definition.items()
            if key != "allowedValues"
        }
        texts["allowedValues"] = render_cell(_COLUMNS_BY_NAME["allowedValues"], formatted_names)
        if any(text is None for text in texts.values()):
            return None
        cells |= {key: text for key, text in texts.items() if text is not None}
        return cells if _is_round_trip(cells, definition) else None

    def parse_cells(self, cells: CellTexts) -> tuple[str, Any]:
        """Return the name, and a plain value or a mapping without empty cells.

        Raises `CellErrors`.
        """
        name, errors = cells.get("name", "").strip(), dict[str, str]()
        definition = (
            _parse_typed(cells, errors) if cells.get("type") else _parse_untyped(cells.get("value", ""))
        )
        if not cells.get("type") and any(cells.get(key, "").strip() for key in _DEFINITION_COLUMNS):
            errors["type"] = "Choose a type. Without one, a variable has a name and a value only."
        if not is_path(name) or "." in name or len(name) > NAME_CHARACTERS:
            errors["name"] = _COLUMNS_BY_NAME["name"].help if name else "Enter a value."
        if not errors:
            errors = {
                _get_problem_cell(at, cells): message
                for (_, *at), message in find_variable_problems({name: definition})
            }
        if errors:
            raise CellErrors(errors)
        return name, definition

    def parse_variables(self, name: str, entered: Mapping[str, str], value: Any) -> dict[str, Any] | None:
        """Return the submitted variables; unchanged ones as written, None without any.

        Raises `CellErrors` with the names of the form controls.
        """
        old = list(value.items()) if isinstance(value, dict) else []
        variables: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for n, cells in group_cells_by_row(name, self, entered).items():
            before = old[n] if n < len(old) else None
            if before is None and not any(cells.values()):
                continue
            try:
                key, definition = self._parse_entry(before, cells)
            except CellErrors as bad:
                errors.update({f"{name}.{n}.{key}": sentence for key, sentence in bad.errors.items()})
                continue
            if key in variables:
                errors[f"{name}.{n}.name"] = f"Two variables have the name {key}. Names must be unique."
            variables[key] = definition
        if errors:
            raise CellErrors(errors)
        if isinstance(value, dict):
            value.clear()
            value.update(variables)
            return value or None
        return variables or None

    def _parse_entry(self, before: tuple[str, Any] | None, cells: CellTexts) -> tuple[str, Any]:
        if before is None:
            return self.parse_cells(cells)
        if is_unchanged(self, before, cells):
            return before
        old_cells = self.render_cells(before) or {}
        if not cells.get("type") and not old_cells["type"] and cells.get("value", "") == old_cells["value"]:
            # Only the name changed: the text "3" stays a text.
            return self.parse_cells({**cells, "value": "x"})[0], before[1]
        name, definition = self.parse_cells(cells)
        return name, merge_value(before[1], definition)


def _parse_untyped(text: str) -> Any:
    """Parse a text without a type: true, false and numbers are converted."""
    text = text.strip()
    return text == "true" if text in ("true", "false") else _UNTYPED_VARIABLE.parse_value(text)


def _parse_typed(cells: CellTexts, errors: dict[str, str]) -> dict[str, Any]:
    """Parse cells into a mapping; invalid ones are added to `errors`."""
    definition: dict[str, Any] = {"type": cells["type"]}
    variable = PipelineVariable("", cells["type"])
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
            value = [variable.parse_value(choice) for choice in value]
        elif key in _TYPED_COLUMNS and not value.startswith(_RUNTIME_INPUT):
            value = variable.parse_value(value)
        definition[key] = value
    return definition


def _get_problem_cell(at: Sequence[str], cells: CellTexts) -> str:
    """Return the cell of a problem: of its key, else of the value or its replacement."""
    if at and at[0] in _COLUMNS_BY_NAME:
        return at[0]
    return "value" if cells.get("value") or not cells.get("default") else "default"


def _is_round_trip(cells: CellTexts, definition: Mapping[str, Any]) -> bool:
    """Return whether cells parse back to the definition, including types: the text 3 is not the number."""
    parsed = _parse_typed(cells, {})
    return parsed == definition and all(
        [type(item) for item in _as_list(value)] == [type(item) for item in _as_list(parsed[key])]
        for key, value in definition.items()
    )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
