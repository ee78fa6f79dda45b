"""The form of a step, made from the dataclass of its spec: its fields, and what was entered in them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from typing import Any, Literal, get_args, get_origin

from catalog.manifests.yaml_draft import NotEditable, same
from catalog.manifests.yaml_rendering import shown_text
from guards.fault import Refused
from guards.yaml import read_yaml
from pipelines.editor.cells import read_cell, shown_cell
from pipelines.editor.controls import StepField, label_of
from pipelines.editor.own_manifests import OwnManifest
from pipelines.editor.tables import (
    CellErrors,
    Mappings,
    Table,
    blank_row,
    entered_rows,
    entries_from,
    fits,
    is_entered,
    rows_of,
)
from pipelines.editor.variable_rows import VariableRows
from steps.expressions import has_expression
from steps.kinds.base import StepKind, plain_type
from steps.kinds.columns import Column

SPEC = "spec."
_YES_NO = {True: "true", False: "false"}
# Texts that people write over several lines.
_LONG = ("script", "requestBody", "approvalMessage", "assertion", "description")
_NAMES, _FLAG = Column("names", "names"), Column("flag", "flag")


@dataclass(frozen=True)
class Place:
    """A field: the keys that lead to it, what it may hold, and what is there if nothing is said."""

    keys: tuple[str, ...]
    type: Any
    default: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    table: Table | None = None
    before: str = SPEC

    @property
    def name(self) -> str:
        """What the form calls it."""
        return self.before + ".".join(self.keys)


def fields_of(kind: StepKind, spec: Any) -> list[StepField]:
    """The fields of a step's form with what the text says."""
    return [field_of(one, value) for one, value in _shown_places(kind, spec)]


def entered_fields(
    kind: StepKind, spec: Any, entered: Mapping[str, str], errors: Mapping[str, str]
) -> list[StepField]:
    """The fields of a step's form with what somebody entered, and what is wrong with it."""
    return [field_of(one, value, entered, errors) for one, value in _shown_places(kind, spec)]


def write_spec(kind: StepKind, body: dict[str, Any], entered: Mapping[str, str]) -> dict[str, str]:
    """Put what was entered into a step; returns what is wrong by field, and then nobody uses the step.

    What was not changed in the form is not touched in the text.
    """
    written = body.get("spec")
    spec = written if isinstance(written, dict) else {}
    errors = write_places(_places(kind), spec, entered)
    if errors:
        return errors
    if spec:
        body["spec"] = spec
    elif "spec" in body:
        del body["spec"]
    return {}


def write_places(
    places: Iterator[Place], around: dict[str, Any], entered: Mapping[str, str]
) -> dict[str, str]:
    """Put what was entered for some fields into the mapping that holds them; returns what is wrong."""
    changes: dict[tuple[str, ...], Any] = {}
    errors: dict[str, str] = {}
    for place in places:
        value = _at(around, place.keys)
        try:
            if _is_given(place, value, entered):
                changes[place.keys] = _entered(place, value, entered)
        except CellErrors as bad:
            errors |= bad.errors
        except ValueError as bad:
            errors[place.name] = str(bad)
    if not errors:
        for keys, value in changes.items():
            _set(around, keys, value)
    return errors


def _is_given(place: Place, value: Any, entered: Mapping[str, str]) -> bool:
    if _kind(place, value)[0] in ("rows", "item"):
        return is_entered(place.name, entered)
    given = entered.get(place.name)
    return given is not None and not _is_unchanged(given, place, value)


def _entered(place: Place, value: Any, entered: Mapping[str, str]) -> Any:
    """What was entered for a field; None where the default is meant. Raises `ValueError` in words."""
    kind = _kind(place, value)[0]
    if place.table and kind == "item":
        found = entries_from(place.name, place.table, entered, [value] if value else [])
        return found[0] if found else None
    if isinstance(place.table, VariableRows) and kind == "rows":
        return place.table.gathered(place.name, entered, value)
    if place.table and kind == "rows":
        return entries_from(place.name, place.table, entered, value) or None
    return _value(entered[place.name], place, kind)


def _shown_places(kind: StepKind, spec: Any) -> Iterator[tuple[Place, Any]]:
    written = spec if isinstance(spec, dict) else {}
    for place in _places(kind):
        value = _at(written, place.keys)
        if value is not None or not place.metadata.get("is_rare"):
            yield place, value


def _places(kind: StepKind) -> Iterator[Place]:
    return _places_in(kind.spec, kind.manifests)


def _places_in(spec: Any, manifests: Mapping[str, str], before: tuple[str, ...] = ()) -> Iterator[Place]:
    for name, one in spec.__dataclass_fields__.items():
        if not one.init:
            continue
        wanted = plain_type(one.type)
        if is_dataclass(wanted):
            yield from _places_in(wanted, {}, (*before, name))
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        columns = one.metadata.get("columns")
        table: Table | None = Mappings(columns) if columns else None
        if name in manifests:
            table = OwnManifest(is_needed=default is MISSING)
        yield Place((*before, name), one.type, default, one.metadata, table)


def field_of(
    place: Place,
    value: Any,
    entered: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> StepField:
    """The control of a field with the value that is written, or with what somebody entered."""
    errors = errors or {}
    kind, choices = _kind(place, value)
    shown = _shown(value, kind) if entered is None else entered.get(place.name, "")
    if kind == "choice" and shown and shown not in dict(choices):
        choices = (*choices, (shown, shown))
    metadata = place.metadata
    return StepField(
        name=place.name,
        label=metadata.get("label") or label_of(place.keys[-1]),
        kind=kind,
        value=shown,
        help=metadata.get("help", ""),
        is_required=place.default is MISSING,
        choices=choices,
        error=errors.get(place.name, ""),
        default=_default(place),
        **_rows(place, kind, value, entered, errors),
    )


def _rows(
    place: Place, kind: str, value: Any, entered: Mapping[str, str] | None, errors: Mapping[str, str]
) -> dict[str, Any]:
    if place.table is None or kind not in ("rows", "item"):
        return {}
    name, table = place.name, place.table
    written = [value or {}] if kind == "item" else _listed(table, value)
    rows = (
        rows_of(name, table, written, errors)
        if entered is None
        else entered_rows(name, table, entered, errors)
    )
    return {"rows": rows, "blank": blank_row(name, table), "style": table.style}


def _kind(place: Place, value: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
    wanted = plain_type(place.type)
    options = place.metadata.get("choices") or (
        get_args(place.type) if get_origin(place.type) is Literal else ()
    )
    if options:
        none = () if place.default is MISSING else (("", f"Default: {place.default}"),)
        return "choice", (*none, *((str(one), str(one)) for one in options))
    if wanted is bool:
        said = {True: "yes", False: "no"}.get(place.default, "as the service definition says")
        return "choice", (("", f"Default: {said}"), ("true", "Yes"), ("false", "No"))
    if wanted is int:
        return "number", ()
    if wanted is str:
        is_long = place.keys[-1] in _LONG or (isinstance(value, str) and "\n" in value)
        return ("lines" if is_long else "text"), ()
    return _kind_of_many(place, value), ()


def _listed(table: Table, value: Any) -> Any:
    """The entries that rows show: of variables each with its name."""
    return table.listed(value) if isinstance(table, VariableRows) else value


def _kind_of_many(place: Place, value: Any) -> str:
    if isinstance(place.table, OwnManifest):
        return "item" if fits(place.table, None if value is None else [value]) else "yaml"
    if place.table:
        return "rows" if fits(place.table, _listed(place.table, value)) else "yaml"
    holds_names = str in get_args(place.type) and plain_type(place.type) in (list, tuple)
    return "names" if holds_names and shown_cell(_NAMES, value) is not None else "yaml"


def _shown(value: Any, kind: str) -> str:
    if value is None or kind in ("rows", "item"):
        return ""
    if kind == "names":
        return shown_cell(_NAMES, value) or ""
    if kind == "yaml":
        return shown_text(value)
    return _YES_NO[value] if isinstance(value, bool) else str(value)


def _default(place: Place) -> str:
    if place.default is MISSING or isinstance(place.default, bool) or place.default in (None, "", [], {}, ()):
        return ""
    return str(place.default)


def _is_unchanged(given: str, place: Place, value: Any) -> bool:
    kind, _ = _kind(place, value)
    return given.replace("\r\n", "\n").rstrip("\n") == _shown(value, kind).rstrip("\n")


def _value(given: str, place: Place, kind: str) -> Any:
    """What a text means for a field, None where the default is meant. Raises `ValueError` in words."""
    given = given.replace("\r\n", "\n")
    if not given.strip():
        if place.default is MISSING:
            raise ValueError("This is needed.")
        return None
    if has_expression(given) and plain_type(place.type) in (bool, int):
        return given.strip()
    if plain_type(place.type) is bool:
        return read_cell(_FLAG, given)
    if kind == "number":
        if not re.fullmatch(r"-?[0-9]{1,12}", given.strip()):
            raise ValueError("Enter a whole number, or an expression such as <+pipeline.variables.count>.")
        return int(given)
    if kind == "names":
        return read_cell(_NAMES, given)
    return _parsed(given) if kind == "yaml" else given


def _parsed(given: str) -> Any:
    try:
        return read_yaml(given).value
    except Refused as refused:
        raise ValueError(refused.fault.sentence) from refused


def _at(spec: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        spec = spec.get(key) if isinstance(spec, dict) else None
    return spec


def _set(spec: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    if len(keys) > 1:
        inner = spec.setdefault(keys[0], {})
        if not isinstance(inner, dict):
            raise NotEditable(f"{keys[0]} is no mapping in the text; change it in the YAML.")
        _set(inner, keys[1:], value)
        if not inner:
            del spec[keys[0]]
    elif value is None:
        spec.pop(keys[0], None)
    elif not same(spec.get(keys[0]), value):
        spec[keys[0]] = value
