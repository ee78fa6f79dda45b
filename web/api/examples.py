"""Examples of API requests as curl commands, built from the OpenAPI document."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
_REFERENCE: Final = "#/components/schemas/"
# Types may contain themselves.
_DEEPEST: Final = 4
_TEXTS_BY_FORMAT: Final = {
    "date": "2030-01-31",
    "date-time": "2030-01-31T12:00:00Z",
    "email": "anna@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def build_curl(method: str, url: str, operation: Schema, schemas: Schema) -> str:
    """Return a command with all that an operation requires; shell variables stand for parameters."""
    query = "&".join(
        f"{parameter['name']}={_build_variable(parameter['name'])}"
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter.get("required")
    )
    address = re.sub(r"\{(\w+)\}", lambda match: _build_variable(match[1]), url)
    option = "" if method == "GET" else f" -X {method}"
    parts = [f'curl{option} "{address}{f"?{query}" if query else ""}"', '-H "x-api-key: $SLIPWAY_API_KEY"']
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        documented = [example["value"] for example in body.get("examples", {}).values()]
        example = documented[0] if documented else build_example(body["schema"], schemas)
        text = json.dumps(example, indent=2, ensure_ascii=False)
        parts += ['-H "Content-Type: application/json"', f"-d {shlex.quote(text)}"]
    return " \\\n  ".join(parts)


def drop_null(schema: Schema) -> Schema:
    """Return a schema without null as its other type, for readers."""
    types = schema.get("type")
    if isinstance(types, list):
        return {**schema, "type": next(name for name in types if name != "null")}
    alternatives = schema.get("oneOf", [])
    others = [part for part in alternatives if part != {"type": "null"}]
    if len(others) == len(alternatives):
        return schema
    rest = {key: value for key, value in schema.items() if key != "oneOf"}
    return {**rest, "allOf" if len(others) == 1 else "oneOf": others}


def build_example(schema: Schema, schemas: Schema, depth: int = 0) -> Any:
    """Return the smallest value that fits a schema; of a body without required fields, its first field."""
    schema = _resolve(schema, schemas)
    if schema.get("default") not in (None, "", [], {}):
        return schema["default"]
    if "enum" in schema:
        return next((choice for choice in schema["enum"] if choice), None)
    if "properties" in schema:
        return dict(_list_example_fields(schema, schemas, depth))
    if schema.get("type") == "array":
        return [build_example(schema["items"], schemas, depth + 1)] if depth < _DEEPEST else []
    return _build_plain_example(schema)


def _list_example_fields(schema: Schema, schemas: Schema, depth: int) -> Iterator[tuple[str, Any]]:
    if depth >= _DEEPEST:
        return
    writable = {name: field for name, field in schema["properties"].items() if not field.get("readOnly")}
    required = [name for name in schema.get("required", ()) if name in writable]
    for name in required or ([] if depth else list(writable)[:1]):
        yield name, build_example(writable[name], schemas, depth + 1)


def _build_plain_example(schema: Schema) -> Any:
    match schema.get("type"):
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "string":
            return _TEXTS_BY_FORMAT.get(schema.get("format", ""), "string")
        case _:
            return {}


def _resolve(schema: Schema, schemas: Schema) -> Schema:
    """Return a schema without references and null; of alternatives the first."""
    while True:
        schema = drop_null(schema)
        if "$ref" in schema:
            schema = schemas[schema["$ref"].removeprefix(_REFERENCE)]
        elif alternatives := schema.get("allOf") or schema.get("oneOf") or schema.get("anyOf"):
            schema = alternatives[0]
        else:
            return schema


def _build_variable(name: str) -> str:
    return f"${name.upper()}"
