"""How one value in an entry of a list is shown in a form, and what is entered there means."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from steps.expressions import has_expression
from steps.kinds.columns import Column

_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_YES_NO = {True: "true", False: "false"}


def shown_cell(column: Column, value: Any) -> str | None:
    """The text for a value, "" for none; None for what this kind of cell cannot show."""
    return "" if value is None else _SHOWN.get(column.kind, _shown_scalar)(value)


def read_cell(column: Column, given: str) -> Any:
    """What a text means, None for nothing. Raises `ValueError` in words."""
    given = given.replace("\r\n", "\n")
    if not given.strip():
        if column.is_needed:
            raise ValueError("This is needed.")
        return None
    return _READ.get(column.kind, _read_text)(given, column)


def _shown_scalar(value: Any) -> str | None:
    if isinstance(value, bool):
        return _YES_NO[value]
    return str(value) if isinstance(value, str | int | float) and "\n" not in str(value) else None


def _shown_lines(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _shown_flag(value: Any) -> str | None:
    return _YES_NO[value] if isinstance(value, bool) else None


def _shown_number(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number or (isinstance(value, str) and has_expression(value)) else None


def _shown_names(value: Any) -> str | None:
    is_plain = isinstance(value, list) and all(
        isinstance(one, str) and one and one == one.strip() and "\n" not in one for one in value
    )
    return "\n".join(value) if is_plain else None


def _shown_pairs(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    pairs = [(str(name), _shown_scalar(one)) for name, one in value.items()]
    if any(one is None or "=" in name or name != name.strip() for name, one in pairs):
        return None
    return "\n".join(f"{name}={one}" for name, one in pairs)


def _read_text(given: str, column: Column) -> str:
    return given.strip()


def _read_lines(given: str, column: Column) -> str:
    return given


def _read_choice(given: str, column: Column) -> str:
    if given not in column.choices:
        raise ValueError(f"Choose one of {', '.join(column.choices)}.")
    return given


def _read_flag(given: str, column: Column) -> bool:
    if given not in _YES_NO.values():
        raise ValueError("Choose yes or no.")
    return given == "true"


def _read_number(given: str, column: Column) -> Any:
    given = given.strip()
    if has_expression(given):
        return given
    if not _NUMBER.fullmatch(given):
        raise ValueError("Enter a number.")
    return float(given) if "." in given else int(given)


def _read_names(given: str, column: Column) -> list[str]:
    return list(dict.fromkeys(line.strip() for line in given.split("\n") if line.strip()))


def _read_pairs(given: str, column: Column) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _read_names(given, column):
        name, is_pair, value = line.partition("=")
        if not is_pair or not name.strip():
            raise ValueError(f"Write name=value, one in each line; {line[:40]!r} is none.")
        found[name.strip()] = value.strip()
    return found


_SHOWN: dict[str, Callable[[Any], str | None]] = {
    "lines": _shown_lines,
    "flag": _shown_flag,
    "number": _shown_number,
    "names": _shown_names,
    "checks": _shown_names,
    "pairs": _shown_pairs,
}
_READ: dict[str, Callable[[str, Column], Any]] = {
    "lines": _read_lines,
    "choice": _read_choice,
    "flag": _read_flag,
    "number": _read_number,
    "names": _read_names,
    "checks": _read_names,
    "pairs": _read_pairs,
}
