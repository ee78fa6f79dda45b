"""Reads the fields of what agents send; each fault names its field."""

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn
from uuid import UUID

from guards.fault import Fault, Refused
from guards.limits import AGENT_TAGS, INTEGER, JSON_DEPTH, NAME_CHARACTERS
from guards.text import name_fault
from web.problems import BadInput

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def _no_constant(name: str) -> NoReturn:
    raise Refused(Fault(f"{name} is not a JSON number", "send null"))


_decoder = json.JSONDecoder(parse_constant=_no_constant)


def read_object(text: str) -> dict[str, Any]:
    """One JSON object. Raises `BadInput`.

    Agents write much and often, so this is the C parser; texts in it are not checked yet.
    """
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError) as problem:
        raise BadInput(f"The body is not JSON: {problem}.") from problem
    if not isinstance(value, dict):
        raise BadInput("The body must be a JSON object.")
    return value


def storable(value: Any, depth: int = JSON_DEPTH) -> Any:
    """`value` with a replacement for every character that no database holds. Raises `BadInput` for depth."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if depth <= 0:
        raise BadInput(f"The body is nested deeper than {int(JSON_DEPTH)} levels.")
    if isinstance(value, list):
        return [storable(one, depth - 1) for one in value]
    if isinstance(value, dict):
        return {storable(key): storable(one, depth - 1) for key, one in value.items()}
    if isinstance(value, int) and not -INTEGER <= value <= INTEGER:
        return str(value)
    return value


def bad(path: str, message: str) -> BadInput:
    """The refusal of one field."""
    return BadInput(f"{path} {message}.", errors=[{"path": path, "message": message}])


class Fields:
    """The fields of one JSON object that an agent sent."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body

    def shown(self, name: str, most: int) -> str:
        """A text for people to read, cleaned; empty where there is none. Raises `BadInput`."""
        value = self.body.get(name) or ""
        if not isinstance(value, str):
            raise bad(name, "must be a text")
        if len(value) > most:
            raise bad(name, f"may have {most} characters at most")
        return _INVISIBLE.sub("\ufffd", value)

    def name(self, name: str) -> str:
        """A name of one line that reads as what it is. Raises `BadInput`."""
        return _checked_name(name, self.body.get(name))

    def tags(self, name: str) -> list[str]:
        """Names without repeats, in their order. Raises `BadInput`."""
        value = self.body.get(name) or []
        if not isinstance(value, list):
            raise bad(name, "must be a list of texts")
        if len(value) > AGENT_TAGS:
            raise bad(name, f"may hold {AGENT_TAGS}")
        return list(dict.fromkeys(_checked_name(f"{name}.{index}", one) for index, one in enumerate(value)))

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number. Raises `BadInput`."""
        value = self.body.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise bad(name, f"must be a whole number from {low} to {high}")
        return value

    def measured(self, name: str) -> float:
        """A number that is not negative, zero where it is missing. Raises `BadInput`."""
        value = self.body.get(name) or 0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise bad(name, "must be a number from 0")
        return float(value)

    def moment(self, name: str) -> float | None:
        """Seconds since the epoch, None where they are missing. Raises `BadInput`."""
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
            raise bad(name, "must be seconds since 1970")
        return float(value)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """One of the known words. Raises `BadInput`."""
        value = self.body.get(name)
        if value not in known:
            raise bad(name, f"must be one of {', '.join(known)}")
        return str(value)

    def objects(self, name: str, most: int) -> list[dict[str, Any]]:
        """A list of JSON objects, none where it is missing. Raises `BadInput`."""
        value = self.body.get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise bad(name, "must be a list of objects")
        if len(value) > most:
            raise bad(name, f"may hold {most} at most")
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """A JSON object or None. Raises `BadInput`."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, dict):
            raise bad(name, "must be an object")
        return value

    def held(self, name: str, most: int) -> dict[UUID, int]:
        """The tasks that an agent says it has, with their fences. Raises `BadInput`."""
        found: dict[UUID, int] = {}
        for one in self.objects(name, most):
            fields = Fields(one)
            found[task_id(one.get("id"))] = fields.whole("fence", 0, 2**31 - 1)
        return found


def task_id(value: object) -> UUID:
    """The id of a task. Raises `BadInput`."""
    try:
        return UUID(value) if isinstance(value, str) else UUID("")
    except ValueError as problem:
        raise bad("id", "must be the id of a task") from problem


def _checked_name(path: str, value: object) -> str:
    if not isinstance(value, str):
        raise bad(path, "must be a text")
    if fault := name_fault(value.strip(), NAME_CHARACTERS):
        raise bad(path, fault.message)
    return value.strip()
