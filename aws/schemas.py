"""JSON Schema of an operation's parameters, from botocore's model: what an editor may suggest."""

from functools import cache
from typing import Any

from aws.shapes import input_shape
from aws.walk import is_free

_TYPES = {
    "string": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
}


@cache
def input_schema(service: str, operation: str, leave_out: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema of an operation's parameters but those to `leave_out`; shapes stand under `$defs` once.

    Treat it as a constant: everybody gets the same one.
    """
    found: dict[str, Any] = {}
    top = _structure(input_shape(service, operation), found)
    properties = {name: one for name, one in top["properties"].items() if name not in leave_out}
    return {**top, "properties": properties, "$defs": found}


def _schema(shape: Any, found: dict[str, Any]) -> dict[str, Any]:
    if is_free(shape):
        return {}
    if shape.type_name == "structure":
        if shape.name not in found:
            # Entered before its members are, for a shape may hold itself.
            found[shape.name] = {}
            found[shape.name] = _structure(shape, found)
        return {"$ref": f"#/$defs/{shape.name}"}
    if shape.type_name == "list":
        return {"type": "array", "items": _schema(shape.member, found)}
    if shape.type_name == "map":
        return {"type": "object", "additionalProperties": _schema(shape.value, found)}
    known = _TYPES.get(shape.type_name)
    schema: dict[str, Any] = {"type": known} if known else {}
    return schema | ({"enum": list(shape.enum)} if getattr(shape, "enum", None) else {})


def _structure(shape: Any, found: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(member, found) for name, member in shape.members.items()},
    }
    return schema | ({"required": list(shape.required_members)} if shape.required_members else {})
