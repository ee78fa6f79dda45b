"""What a breach of the pipeline schema is called, in words that say what to write instead."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from jsonschema.exceptions import ValidationError

_SHAPES = {
    "object": "a mapping of keys to values",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}
_LONGEST = 60


@dataclass(frozen=True)
class _Breach:
    """One breach: what was asked (`rule` and its `value`), of what, inside which schema."""

    rule: str
    value: Any
    found: Any
    schema: Any


def in_words(error: ValidationError) -> str:
    """What is wrong and what is right, of one breach."""
    breach = _Breach(str(error.validator), error.validator_value, error.instance, error.schema)
    return _SAID[breach.rule](breach) if breach.rule in _SAID else error.message


def unknown_keys(error: ValidationError) -> list[str]:
    """The keys that do not belong where they stand, for a breach of that kind; else none."""
    breach = _Breach(str(error.validator), error.validator_value, error.instance, error.schema)
    return _unknown(breach) if breach.rule == "additionalProperties" else []


def _unknown(breach: _Breach) -> list[str]:
    return [str(name) for name in breach.found if name not in breach.schema.get("properties", {})]


def _not_known(breach: _Breach) -> str:
    allowed = [str(one) for one in breach.value]
    if len(allowed) == 1:
        return f"must be {allowed[0]}, not {_shown(breach.found)}"
    return f"{_shown(breach.found)} is not known here; known are {', '.join(allowed)}"


def _missing(breach: _Breach) -> str:
    absent = [name for name in breach.value if name not in breach.found]
    return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} missing"


def _too_much(breach: _Breach) -> str:
    known, unknown = list(breach.schema.get("properties", {})), _unknown(breach)
    near = get_close_matches(unknown[0], known, n=1)
    if not known:
        return f"{_shown(', '.join(unknown))} does not belong here: nothing can be chosen"
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{_shown(', '.join(unknown))} is not known here; {hint}"


def _misshapen(breach: _Breach) -> str:
    wanted = breach.value if isinstance(breach.value, list) else [breach.value]
    shapes = [_SHAPES.get(one, str(one)) for one in wanted if one != "integer" or "number" not in wanted]
    return f"must be {' or '.join(shapes)}, not {_shown(breach.found)}"


def _misspelled(breach: _Breach) -> str:
    if "smhd" in str(breach.value):
        return f"{_shown(breach.found)} is no time; write 90s, 30m, 2h or 1d"
    return f"{_shown(breach.found)} is no identifier; use letters, digits, _ and $, and no digit first"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_SAID: dict[str, Callable[[_Breach], str]] = {
    "enum": _not_known,
    "required": _missing,
    "additionalProperties": _too_much,
    "type": _misshapen,
    "pattern": _misspelled,
    "minItems": lambda breach: "must not be empty",
    "maxItems": lambda breach: f"may have {breach.value} entries at most",
    "minProperties": lambda breach: f"names none of {', '.join(breach.schema.get('properties', {}))}",
    "maxProperties": lambda breach: f"names {' and '.join(map(str, breach.found))}; write them one by one",
    "minLength": lambda breach: "must not be empty",
    "maxLength": lambda breach: f"may have {breach.value} characters at most",
}
