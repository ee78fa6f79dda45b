"""Generation of the OpenAPI document, with constraints that serializers do not have."""

import threading
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from rest_framework.request import Request
from rest_framework.serializers import CharField, Field, IntegerField

from guards.limits import IDEMPOTENCY_HOURS, IDEMPOTENCY_KEY_CHARACTERS, MAX_INTEGER
from guards.text import NAME_PATTERN
from rbac.models.scopes import IDENTIFIER_PATTERN
from web.api.idempotency import IDEMPOTENCY_HEADER, is_creating
from web.http.problems import PROBLEM_MEDIA_TYPE

# What is said here counts for what is sent alone: `web.api.openapi` takes it out of the rest.
REQUEST_ONLY_KEY: Final = "x-only-sent"
_ANY_PATTERN: Final = r"^[^\u0000]*$"
# White space at both ends is cut off before anything else is looked at.
_NOT_BLANK_PATTERN: Final = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
# No request is read that has a larger number, whatever field it is for.
_STORABLE_INTEGERS: Final = {"minimum": -int(MAX_INTEGER) - 1, "maximum": int(MAX_INTEGER)}
_PATTERNS_BY_NAME: Final = {"name": NAME_PATTERN, "identifier": IDENTIFIER_PATTERN.replace(r"\Z", "$")}


class PatternedAutoSchema(AutoSchema):
    """Schema of request texts with the patterns of their validation."""

    def _get_serializer_field_meta(self, field: Any, direction: str) -> dict[str, Any]:
        meta = cast(dict[str, Any], super()._get_serializer_field_meta(field, direction))
        if (
            isinstance(field, CharField)
            and not field.read_only
            and type(field).__module__ == Field.__module__
        ):
            if not field.allow_blank and meta.get("default") == "":
                del meta["default"]
            meta[REQUEST_ONLY_KEY] = {"pattern": _get_pattern(field)}
        elif isinstance(field, IntegerField) and not field.read_only:
            meta[REQUEST_ONLY_KEY] = _STORABLE_INTEGERS
        return meta


def resolve_request_only(schema: Any, *, is_sent: bool) -> None:
    """Apply or remove the request-only parts of `schema`, at any depth."""
    if isinstance(schema, list):
        for inner in schema:
            resolve_request_only(inner, is_sent=is_sent)
    if not isinstance(schema, dict):
        return
    request_only = schema.pop(REQUEST_ONLY_KEY, {})
    if is_sent:
        for key, value in request_only.items():
            schema.setdefault(key, value)
    for inner in schema.values():
        resolve_request_only(inner, is_sent=is_sent)


def _get_pattern(field: Any) -> str:
    if field.allow_blank:
        return _ANY_PATTERN
    return _PATTERNS_BY_NAME.get(str(field.field_name), _NOT_BLANK_PATTERN)


_SCHEMAS = "#/components/schemas/"
_GENERATION_LOCK = threading.Lock()
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Reason for the refusal.",
    "required": ["type", "title", "status", "code", "detail", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "Error code for programs; stable for each type of error."},
        "detail": {"type": "string", "description": "Explanation for users."},
        "request_id": {"type": "string", "description": "ID of the request in the server logs."},
        "errors": {
            "type": "array",
            "description": "Invalid fields.",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}

IDEMPOTENCY_PARAMETER: dict[str, Any] = {
    "name": IDEMPOTENCY_HEADER,
    "in": "header",
    "description": (
        "Key of this request, such as a UUID. A repeated request with the same key and body gets the first "
        f"answer for {IDEMPOTENCY_HOURS}, and creates nothing."
    ),
    "schema": {"type": "string", "maxLength": int(IDEMPOTENCY_KEY_CHARACTERS), "pattern": "^[ -~]*$"},
}


class CachedSchemaGenerator(SchemaGenerator):
    """Schema generator with one cached public schema per process; generating it takes a second."""

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        return get_public_schema() if public else cast(dict[str, Any], super().get_schema(request, public))


def get_public_schema() -> dict[str, Any]:
    """Return the public schema, a shared object that must not be changed."""
    # The generator loads its extensions into globals without a lock: a concurrent one fails.
    with _GENERATION_LOCK:
        return _generate_schema()


@cache
def _generate_schema() -> dict[str, Any]:
    return cast(dict[str, Any], SchemaGenerator().get_schema(None, public=True))


def forbid_additional_properties(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add `additionalProperties: false` to every request body (see `web.api.request_bodies`)."""
    schemas = result.get("components", {}).get("schemas", {})
    operations = list(_list_operations(result))
    sent = _list_reachable_schemas([operation.get("requestBody") for operation in operations], schemas)
    answered = _list_reachable_schemas([operation.get("responses") for operation in operations], schemas)
    for operation in operations:
        resolve_request_only(operation.get("requestBody"), is_sent=True)
        resolve_request_only(operation, is_sent=False)
    for name, schema in schemas.items():
        resolve_request_only(schema, is_sent=name in sent - answered)
    for name in sent:
        if schemas.get(name, {}).get("properties"):
            schemas[name]["additionalProperties"] = False
    return result


def _list_reachable_schemas(parts: list[Any], schemas: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that parts of the OpenAPI document use, at any depth."""
    names: set[str] = set()
    new = set(_list_referenced_schemas(parts))
    while new:
        names |= new
        new = {name for parent in new for name in _list_referenced_schemas(schemas.get(parent))} - names
    return names


def drop_null_beside_any(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Describe a nullable field of any type as any value: null would be valid under both alternatives."""
    _drop_null_beside_any(result)
    return result


def _drop_null_beside_any(part: Any) -> None:
    if isinstance(part, dict):
        if {} in part.get("oneOf", ()):
            del part["oneOf"]
        for inner in part.values():
            _drop_null_beside_any(inner)
    elif isinstance(part, list):
        for inner in part:
            _drop_null_beside_any(inner)


def add_number_bounds(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add minimum and maximum to every numeric query parameter without them."""
    for operation in _list_operations(result):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter["schema"].get("type") == "integer":
                parameter["schema"] = {"minimum": 0, "maximum": 10**15 - 1, **parameter["schema"]}
    return result


def add_problem_responses(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the error responses, all of one shape, to every operation."""
    components = result.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
    components.setdefault("responses", {})["Problem"] = {
        "description": "Problem details with the cause and the fix (RFC 9457).",
        "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": f"{_SCHEMAS}Problem"}}},
    }
    for path, methods in result.get("paths", {}).items():
        for method, operation in methods.items():
            for status in _list_problem_statuses(path, method, operation):
                operation["responses"].setdefault(str(status), {"$ref": "#/components/responses/Problem"})
    return result


def add_idempotency_keys(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the Idempotency-Key header to every POST that creates something."""
    for methods in result.get("paths", {}).values():
        operation = methods.get("post", {})
        # Without authentication there is nobody whose key it is.
        if operation.get("security") and is_creating(operation["responses"].keys()):
            operation.setdefault("parameters", []).append(IDEMPOTENCY_PARAMETER)
            operation["responses"]["422"] = {"$ref": "#/components/responses/Problem"}
    return result


def _list_problem_statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    yield from (400, 401, 403, 404, 406, 414, 429, 503)
    if method != "get":
        yield from (408, 409, 412, 413, 415)
    elif "{" in path:
        yield 409


def _list_operations(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in result.get("paths", {}).values():
        yield from (operation for operation in path.values() if isinstance(operation, dict))


def _list_referenced_schemas(part: Any) -> Iterator[str]:
    """Return the names of the schemas that a part of the OpenAPI document references."""
    if isinstance(part, dict):
        if str(part.get("$ref", "")).startswith(_SCHEMAS):
            yield part["$ref"].removeprefix(_SCHEMAS)
        for inner in part.values():
            yield from _list_referenced_schemas(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _list_referenced_schemas(inner)
