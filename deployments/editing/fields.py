"""The form of a step, made from the dataclass of its spec: its fields, and what was entered in them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass
from typing import Any, Literal, get_args, get_origin

from deployments.editing.draft import NotEditable, same
from deployments.editing.rendering import shown_text
from deployments.expressions import has_expression
from deployments.steps.base import StepKind, plain_type
from guards.fault import Refused
from guards.yaml import read_yaml

SPEC = "spec."
_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_YES_NO = {True: "true", False: "false"}
# Texts that people write over several lines.
_LONG = ("script", "requestBody", "approvalMessage", "assertion", "description")


@dataclass(frozen=True)
class StepField:
    """One thing that a form asks: `kind` is text, lines, number, choice or yaml."""

    name: str
    label: str
    kind: str
    value: str = ""
    help: str = ""
    is_required: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    error: str = ""
    default: str = ""

    @property
    def id(self) -> str:
        """What the page calls the control."""
        return f"visual-{self.name.replace('.', '-')}"


@dataclass(frozen=True)
class _Place:
    """A field of a spec: the keys that lead to it, what it may hold, and what is there if nothing is said."""

    keys: tuple[str, ...]
    type: Any
    default: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return SPEC + ".".join(self.keys)


def fields_of(kind: StepKind, spec: Any, errors: Mapping[str, str] | None = None) -> list[StepField]:
    """The fields of a step's form with what the text says; `errors` by the name of the field."""
    written = spec if isinstance(spec, dict) else {}
    return [
        _field(one, _at(written, one.keys), (errors or {}).get(one.name, "")) for one in _places(kind.spec)
    ]


def entered_fields(kind: StepKind, entered: Mapping[str, str], errors: Mapping[str, str]) -> list[StepField]:
    """The fields of a step's form with what somebody entered, and what is wrong with it."""
    return [
        _field(one, entered.get(one.name, ""), errors.get(one.name, ""), is_entered=True)
        for one in _places(kind.spec)
    ]


def write_spec(kind: StepKind, body: dict[str, Any], entered: Mapping[str, str]) -> dict[str, str]:
    """Put what was entered into a step; returns what is wrong by field, and then changes nothing.

    What was not changed in the form is not touched in the text.
    """
    written = body.get("spec")
    spec = written if isinstance(written, dict) else {}
    changes: dict[tuple[str, ...], Any] = {}
    errors: dict[str, str] = {}
    for place in _places(kind.spec):
        given = entered.get(place.name)
        if given is None or _is_unchanged(given, place, _at(spec, place.keys)):
            continue
        try:
            changes[place.keys] = _value(given, place)
        except ValueError as bad:
            errors[place.name] = str(bad)
    if errors:
        return errors
    for keys, value in changes.items():
        _set(spec, keys, value)
    if spec:
        body["spec"] = spec
    elif "spec" in body:
        del body["spec"]
    return {}


def _places(spec: Any, before: tuple[str, ...] = ()) -> Iterator[_Place]:
    for name, one in spec.__dataclass_fields__.items():
        if not one.init:
            continue
        wanted = plain_type(one.type)
        if is_dataclass(wanted):
            yield from _places(wanted, (*before, name))
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        yield _Place((*before, name), one.type, default, one.metadata)


def _field(place: _Place, value: Any, error: str, *, is_entered: bool = False) -> StepField:
    kind, choices = _kind(place, value)
    shown = value if is_entered else _shown(value, kind)
    if kind == "choice" and shown and shown not in dict(choices):
        choices = (*choices, (shown, shown))
    metadata = place.metadata
    return StepField(
        name=place.name,
        label=metadata.get("label") or _label(place.keys[-1]),
        kind=kind,
        value=shown,
        help=metadata.get("help", ""),
        is_required=place.default is MISSING,
        choices=choices,
        error=error,
        default=_default(place),
    )


def _kind(place: _Place, value: Any) -> tuple[str, tuple[tuple[str, str], ...]]:
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
    return "yaml", ()


def _shown(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind == "yaml":
        return shown_text(value)
    return _YES_NO[value] if isinstance(value, bool) else str(value)


def _default(place: _Place) -> str:
    if place.default is MISSING or isinstance(place.default, bool) or place.default in (None, "", [], {}, ()):
        return ""
    return str(place.default)


def _label(name: str) -> str:
    words = _CAPITALS.sub(" ", name).replace("_", " ")
    return words[:1].upper() + words[1:].lower().replace(" arn", " ARN").replace("url", "URL")


def _is_unchanged(given: str, place: _Place, value: Any) -> bool:
    kind, _ = _kind(place, value)
    return given.replace("\r\n", "\n").rstrip("\n") == _shown(value, kind).rstrip("\n")


def _value(given: str, place: _Place) -> Any:
    """What a text means for a field, None where the default is meant. Raises `ValueError` in words."""
    given = given.replace("\r\n", "\n")
    if not given.strip():
        if place.default is MISSING:
            raise ValueError("This is needed.")
        return None
    if has_expression(given) and plain_type(place.type) in (bool, int):
        return given.strip()
    kind, _ = _kind(place, None)
    if plain_type(place.type) is bool:
        if given not in _YES_NO.values():
            raise ValueError("Choose yes or no.")
        return given == "true"
    if kind == "number":
        if not re.fullmatch(r"-?[0-9]{1,12}", given.strip()):
            raise ValueError("Enter a whole number, or an expression such as <+pipeline.variables.count>.")
        return int(given)
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
