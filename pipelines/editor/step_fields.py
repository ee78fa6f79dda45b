"""Form fields of a step, built from the dataclass of its spec."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from typing import Any, Literal, get_args, get_origin

from catalog.manifests.yaml_drafts import NotEditable, is_identical, render_value
from guards.input_problems import InputRejected
from guards.yaml_parser import parse_yaml
from pipelines.editor.cells import StepField, format_label, parse_cell, render_cell
from pipelines.editor.form_rows import (
    CellErrors,
    MappingRows,
    RowTable,
    StepManifestRow,
    build_blank_row,
    build_entered_rows,
    build_rows,
    is_presentable,
    is_submitted,
    parse_entries,
)
from pipelines.editor.variable_rows import VariableRows
from steps.expressions import has_expression
from steps.kinds.registry import SpecColumn, StepKind, resolve_plain_type

SPEC_PREFIX = "spec."
_FLAG_TEXTS = {True: "true", False: "false"}
_NAMES_COLUMN, _FLAG_COLUMN = SpecColumn("names", "names"), SpecColumn("flag", "flag")


@dataclass(frozen=True)
class FieldSpec:
    """A form field: its keys in the spec, type and default."""

    keys: tuple[str, ...]
    type: Any
    default: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    table: RowTable | None = None
    before: str = SPEC_PREFIX

    @property
    def name(self) -> str:
        """Return the name of the form control."""
        return self.before + ".".join(self.keys)


def build_fields(kind: StepKind, spec: Any) -> list[StepField]:
    """Build the fields of a step's form with the values of the text."""
    return [build_field(place, value) for place, value in _list_shown_fields(kind, spec)]


def build_entered_fields(
    kind: StepKind, spec: Any, entered: Mapping[str, str], errors: Mapping[str, str]
) -> list[StepField]:
    """Build the fields of a step's form with submitted values and errors."""
    return [build_field(place, value, entered, errors) for place, value in _list_shown_fields(kind, spec)]


def write_spec(kind: StepKind, body: dict[str, Any], entered: Mapping[str, str]) -> dict[str, str]:
    """Write the submitted values into a step; return errors by field. After errors the step is discarded.

    Unchanged fields are left as written.
    """
    old_spec = body.get("spec")
    spec = old_spec if isinstance(old_spec, dict) else {}
    errors = write_fields(_list_fields(kind), spec, entered)
    if errors:
        return errors
    if spec:
        body["spec"] = spec
    elif "spec" in body:
        del body["spec"]
    return {}


def write_fields(
    places: Iterator[FieldSpec], around: dict[str, Any], entered: Mapping[str, str]
) -> dict[str, str]:
    """Write the submitted values of fields into their mapping; return errors."""
    changes: dict[tuple[str, ...], Any] = {}
    errors: dict[str, str] = {}
    for place in places:
        value = _get_value(around, place.keys)
        try:
            if _is_submitted(place, value, entered):
                changes[place.keys] = _parse_field(place, value, entered)
        except CellErrors as bad:
            errors |= bad.errors
        except ValueError as bad:
            errors[place.name] = str(bad)
    if not errors:
        for keys, value in changes.items():
            _set_value(around, keys, value)
    return errors


def _is_submitted(place: FieldSpec, value: Any, entered: Mapping[str, str]) -> bool:
    if _get_control(place, value)[0] in ("rows", "item"):
        return is_submitted(place.name, entered)
    text = entered.get(place.name)
    return text is not None and not _is_unchanged(text, place, value)


def _parse_field(place: FieldSpec, value: Any, entered: Mapping[str, str]) -> Any:
    """Parse the input of a field; None for the default. Raises `ValueError` with a message."""
    kind = _get_control(place, value)[0]
    if place.table and kind == "item":
        entries = parse_entries(place.name, place.table, entered, [value] if value else [])
        return entries[0] if entries else None
    if isinstance(place.table, VariableRows) and kind == "rows":
        return place.table.parse_variables(place.name, entered, value)
    if place.table and kind == "rows":
        return parse_entries(place.name, place.table, entered, value) or None
    return _parse_value(entered[place.name], place, kind)


def _list_shown_fields(kind: StepKind, spec: Any) -> Iterator[tuple[FieldSpec, Any]]:
    values = spec if isinstance(spec, dict) else {}
    for place in _list_fields(kind):
        value = _get_value(values, place.keys)
        if value is not None or not place.metadata.get("is_rare"):
            yield place, value


def _list_fields(kind: StepKind) -> Iterator[FieldSpec]:
    return _list_dataclass_fields(kind.spec, kind.manifests)


def _list_dataclass_fields(
    spec: Any, manifests: Mapping[str, str], before: tuple[str, ...] = ()
) -> Iterator[FieldSpec]:
    for name, spec_field in spec.__dataclass_fields__.items():
        if not spec_field.init:
            continue
        plain_type = resolve_plain_type(spec_field.type)
        if is_dataclass(plain_type):
            yield from _list_dataclass_fields(plain_type, {}, (*before, name))
            continue
        default = (
            spec_field.default if spec_field.default_factory is MISSING else spec_field.default_factory()
        )
        columns = spec_field.metadata.get("columns")
        table: RowTable | None = MappingRows(columns) if columns else None
        if name in manifests:
            table = StepManifestRow(is_needed=default is MISSING)
        yield FieldSpec((*before, name), spec_field.type, default, spec_field.metadata, table)


def build_field(
    place: FieldSpec,
    value: Any,
    entered: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> StepField:
    """Build the control of a field with the written or submitted value."""
    errors = errors or {}
    kind, choices = _get_control(place, value)
    text = _render_value(value, kind) if entered is None else entered.get(place.name, "")
    if kind == "choice" and text and text not in dict(choices):
        choices = (*choices, (text, text))
    metadata = place.metadata
    return StepField(
        name=place.name,
        label=metadata.get("label") or format_label(place.keys[-1]),
        kind=kind,
        value=text,
        help=metadata.get("help", ""),
        is_required=place.default is MISSING,
        choices=choices,
        error=errors.get(place.name, ""),
        default=_format_default(place),
        **_build_rows(place, kind, value, entered, errors),
    )


def _build_rows(
    place: FieldSpec, kind: str, value: Any, entered: Mapping[str, str] | None, errors: Mapping[str, str]
) -> dict[str, Any]:
    if place.table is None or kind not in ("rows", "item"):
        return {}
    name, table = place.name, place.table
    entries = [value or {}] if kind == "item" else _list_entries(table, value)
    rows = (
        build_rows(name, table, entries, errors)
        if entered is None
        else build_entered_rows(name, table, entered, errors)
    )
    return {"rows": rows, "blank": build_blank_row(name, table), "style": table.style}


def _get_control(place: FieldSpec, value: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
    plain_type = resolve_plain_type(place.type)
    options = place.metadata.get("choices") or (
        get_args(place.type) if get_origin(place.type) is Literal else ()
    )
    if options:
        none = () if place.default is MISSING else (("", f"Default: {place.default}"),)
        return "choice", (*none, *((str(option), str(option)) for option in options))
    if plain_type is bool:
        default = {True: "yes", False: "no"}.get(place.default, "from the service definition")
        return "choice", (("", f"Default: {default}"), ("true", "Yes"), ("false", "No"))
    if plain_type is int:
        return "number", ()
    if plain_type is str:
        is_long = place.metadata.get("is_multiline") or (isinstance(value, str) and "\n" in value)
        return ("lines" if is_long else "text"), ()
    return _get_list_control(place, value), ()


def _list_entries(table: RowTable, value: Any) -> Any:
    """Return the entries of rows; of variables with their names."""
    return table.list_entries(value) if isinstance(table, VariableRows) else value


def _get_list_control(place: FieldSpec, value: Any) -> str:
    if isinstance(place.table, StepManifestRow):
        return "item" if is_presentable(place.table, None if value is None else [value]) else "yaml"
    if place.table:
        return "rows" if is_presentable(place.table, _list_entries(place.table, value)) else "yaml"
    holds_names = str in get_args(place.type) and resolve_plain_type(place.type) in (list, tuple)
    return "names" if holds_names and render_cell(_NAMES_COLUMN, value) is not None else "yaml"


def _render_value(value: Any, kind: str) -> str:
    if value is None or kind in ("rows", "item"):
        return ""
    if kind == "names":
        return render_cell(_NAMES_COLUMN, value) or ""
    if kind == "yaml":
        return render_value(value)
    return _FLAG_TEXTS[value] if isinstance(value, bool) else str(value)


def _format_default(place: FieldSpec) -> str:
    if place.default is MISSING or isinstance(place.default, bool) or place.default in (None, "", [], {}, ()):
        return ""
    return str(place.default)


def _is_unchanged(text: str, place: FieldSpec, value: Any) -> bool:
    kind, _ = _get_control(place, value)
    return text.replace("\r\n", "\n").rstrip("\n") == _render_value(value, kind).rstrip("\n")


def _parse_value(text: str, place: FieldSpec, kind: str) -> Any:
    """Parse the text of a field; None for the default. Raises `ValueError` with a message."""
    text = text.replace("\r\n", "\n")
    if not text.strip():
        if place.default is MISSING:
            raise ValueError("Enter a value.")
        return None
    if has_expression(text) and resolve_plain_type(place.type) in (bool, int):
        return text.strip()
    if resolve_plain_type(place.type) is bool:
        return parse_cell(_FLAG_COLUMN, text)
    if kind == "number":
        if not re.fullmatch(r"-?[0-9]{1,12}", text.strip()):
            raise ValueError("Enter a whole number, or an expression such as <+pipeline.variables.count>.")
        return int(text)
    if kind == "names":
        return parse_cell(_NAMES_COLUMN, text)
    return _parse_yaml(text) if kind == "yaml" else text


def _parse_yaml(text: str) -> Any:
    try:
        return parse_yaml(text).value
    except InputRejected as refused:
        raise ValueError(refused.problem.display_message) from refused


def _get_value(spec: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec


def _set_value(spec: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    if len(keys) > 1:
        inner = spec.setdefault(keys[0], {})
        if not isinstance(inner, dict):
            raise NotEditable(f"{keys[0]} is not a mapping. Correct it in the YAML.")
        _set_value(inner, keys[1:], value)
        if not inner:
            del spec[keys[0]]
    elif value is None:
        spec.pop(keys[0], None)
    elif not is_identical(spec.get(keys[0]), value):
        spec[keys[0]] = value
