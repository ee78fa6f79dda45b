"""Shapes of botocore's service models, and JSON Schemas built from them."""

from functools import cache
from typing import Any

import botocore.session
from botocore.model import OperationModel, ServiceModel, StructureShape


@cache
def get_service_model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


@cache
def get_operation_model(service: str, operation: str) -> OperationModel:
    return get_service_model(service).operation_model(operation)


def get_input_shape(service: str, operation: str) -> StructureShape:
    """Return the shape of an operation's parameters."""
    shape = get_operation_model(service, operation).input_shape
    if not isinstance(shape, StructureShape):
        raise LookupError(f"{service} {operation} takes no parameters")
    return shape


@cache
def get_response_shape(service: str, operation: str, *path: str) -> Any:
    """Return the shape of a part of an operation's answer; of a list its items."""
    shape: Any = get_operation_model(service, operation).output_shape
    for part in path:
        shape = shape.members[part]
        shape = shape.member if shape.type_name == "list" else shape
    return shape


@cache
def get_parameter_names(service: str, operation: str) -> frozenset[str]:
    """Return the names of an operation's top-level parameters."""
    return frozenset(get_input_shape(service, operation).members)


def find_shape(service: str, operation: str, path: tuple[str | int, ...]) -> Any:
    """Return the shape at a path of the parameters, or None if the model has no such path."""
    shape: Any = get_input_shape(service, operation)
    for part in path:
        if shape.type_name == "structure":
            shape = shape.members.get(part)
        elif shape.type_name == "list":
            shape = shape.member
        elif shape.type_name == "map":
            shape = shape.value
        else:
            return None
        if shape is None:
            return None
    return shape


def is_document_shape(shape: Any) -> bool:
    """Return whether a shape is a document: AWS takes any JSON value there, such as the hookDetails of a
    hook.
    """
    return bool(getattr(shape, "is_document_type", False))


_JSON_SCHEMA_TYPES = {
    "string": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
}


@cache
def build_input_schema(
    service: str, operation: str, leave_out: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the schema of an operation's parameters without `leave_out`; shapes are under `$defs`.

    The result is shared and must not be changed.
    """
    definitions: dict[str, Any] = {}
    top = _build_structure_schema(get_input_shape(service, operation), definitions)
    properties = {name: schema for name, schema in top["properties"].items() if name not in leave_out}
    return {**top, "properties": properties, "$defs": definitions}


def _build_schema(shape: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_document_shape(shape):
        return {}
    if shape.type_name == "structure":
        if shape.name not in definitions:
            # Entered before its members, because a shape may contain itself.
            definitions[shape.name] = {}
            definitions[shape.name] = _build_structure_schema(shape, definitions)
        return {"$ref": f"#/$defs/{shape.name}"}
    if shape.type_name == "list":
        return {"type": "array", "items": _build_schema(shape.member, definitions)}
    if shape.type_name == "map":
        return {"type": "object", "additionalProperties": _build_schema(shape.value, definitions)}
    json_type = _JSON_SCHEMA_TYPES.get(shape.type_name)
    schema: dict[str, Any] = {"type": json_type} if json_type else {}
    return schema | ({"enum": list(shape.enum)} if getattr(shape, "enum", None) else {})


def _build_structure_schema(shape: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _build_schema(member, definitions) for name, member in shape.members.items()},
    }
    return schema | ({"required": list(shape.required_members)} if shape.required_members else {})
