"""Messages for violations of the pipeline schema, with the correction."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import ValidationError

from pipelines.definition.schema import DURATION_PATTERN, VARIABLE_NAME_PATTERN

_TYPE_DESCRIPTIONS = {
    "object": "a mapping of keys to values",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}
_MAX_VALUE_CHARACTERS = 60


@dataclass(frozen=True)
class _Violation:
    """A schema violation: the rule, its value, the instance, and the schema around it."""

    rule: str
    value: Any
    instance: Any
    schema: Any


def describe_violation(error: ValidationError) -> str:
    """Return the message for a violation, with the correction."""
    breach = _Violation(str(error.validator), error.validator_value, error.instance, error.schema)
    return _DESCRIBERS[breach.rule](breach) if breach.rule in _DESCRIBERS else error.message


def list_unknown_keys(error: ValidationError) -> list[str]:
    """Return the unknown keys of such a violation; else none."""
    breach = _Violation(str(error.validator), error.validator_value, error.instance, error.schema)
    return _find_unknown_keys(breach) if breach.rule == "additionalProperties" else []


def _find_unknown_keys(breach: _Violation) -> list[str]:
    return [str(name) for name in breach.instance if name not in breach.schema.get("properties", {})]


def _describe_enum(breach: _Violation) -> str:
    allowed = [str(value) for value in breach.value]
    if len(allowed) == 1:
        return f"must be {allowed[0]}, not {_format_value(breach.instance)}"
    return f"{_format_value(breach.instance)} is not allowed; use one of {', '.join(allowed)}"


def _describe_required(breach: _Violation) -> str:
    absent = [name for name in breach.value if name not in breach.instance]
    return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing"


def _describe_unknown_key(breach: _Violation) -> str:
    names, unknown = list(breach.schema.get("properties", {})), _find_unknown_keys(breach)
    near = get_close_matches(unknown[0], names, n=1)
    if not names:
        return f"unknown key {_format_value(', '.join(unknown))}: no keys are allowed here"
    hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(names)}"
    return f"unknown key {_format_value(', '.join(unknown))}; {hint}"


def _describe_type(breach: _Violation) -> str:
    types = breach.value if isinstance(breach.value, list) else [breach.value]
    shapes = [
        _TYPE_DESCRIPTIONS.get(name, str(name))
        for name in types
        if name != "integer" or "number" not in types
    ]
    return f"must be {' or '.join(shapes)}, not {_format_value(breach.instance)}"


def _describe_pattern(breach: _Violation) -> str:
    if breach.value == DURATION_PATTERN:
        return (
            f"{_format_value(breach.instance)} is not a duration; use a value such as 90s, 30m, 2h or 1d, at "
            "most 9999h or 999d"
        )
    if breach.value == VARIABLE_NAME_PATTERN:
        return (
            f"{_format_value(breach.instance)} is not a name of a variable; use letters, digits, _, $ and -, "
            "not starting with a digit"
        )
    return (
        f"{_format_value(breach.instance)} is not an identifier; use letters, digits, _ and $, not starting "
        "with a digit"
    )


def _format_value(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[: _MAX_VALUE_CHARACTERS - 1]}…"


_DESCRIBERS: dict[str, Callable[[_Violation], str]] = {
    "enum": _describe_enum,
    "required": _describe_required,
    "additionalProperties": _describe_unknown_key,
    "type": _describe_type,
    "pattern": _describe_pattern,
    "minItems": lambda breach: "must not be empty",
    "maxItems": lambda breach: f"must have at most {breach.value} entries",
    "minProperties": lambda breach: f"must have one of {', '.join(breach.schema.get('properties', {}))}",
    "maxProperties": lambda breach: (
        f"has the keys {' and '.join(map(str, breach.instance))}; write one key per entry"
    ),
    "minLength": lambda breach: "must not be empty",
    "maxLength": lambda breach: f"must have at most {breach.value} characters",
}
