"""Description of the REST API for readers: resources, operations and fields, read from the OpenAPI document.

Descriptions are plain text, in which backticks mark code.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from web.api.examples import build_curl, drop_null
from web.api.openapi import get_public_schema

Schema = Mapping[str, Any]
JSON_MEDIA_TYPE: Final = "application/json"
_REFERENCE: Final = "#/components/schemas/"
_SHOWN_CHOICES: Final = 12
_FORMATS: Final = {"date-time": "time", "date": "date", "uuid": "UUID"}
# The generator lists choices with their labels in the description.
_CHOICE_LINE: Final = re.compile(r"^\* `([^`]*)` - (.*)$", re.MULTILINE)
_NO_LETTERS: Final = re.compile(r"[\W_]")
_ABBREVIATIONS: Final = {"Aws": "AWS", "Api": "API", "Iam": "IAM"}


@dataclass(frozen=True)
class TypePart:
    """Words of a type; `target` is the object type that they name."""

    text: str
    target: str = ""


@dataclass(frozen=True)
class Field:
    """Parameter or field of an object; `place` is where a parameter is sent."""

    name: str
    type: tuple[TypePart, ...]
    is_required: bool
    text: str
    place: str = ""


@dataclass(frozen=True)
class Content:
    """Fields of a body; without any, its type or a text."""

    text: str = ""
    fields: tuple[Field, ...] = ()
    type: tuple[TypePart, ...] = ()


@dataclass(frozen=True)
class Response:
    """Successful response."""

    status: str
    content: Content


@dataclass(frozen=True)
class Operation:
    """Method and path with everything that is sent and returned; `refusals` are statuses of errors."""

    id: str
    method: str
    path: str
    text: str
    parameters: tuple[Field, ...]
    body: Content | None
    responses: tuple[Response, ...]
    refusals: tuple[str, ...]
    example: str

    def contains(self, words: list[str]) -> bool:
        """Return whether every lower-case word is in the method, path or description."""
        content = f"{self.method} {self.path} {self.text}".lower()
        return all(word in content for word in words)


@dataclass(frozen=True)
class ObjectType:
    """Named type of fields."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Resource:
    """Operations on one kind of object, and the types that they use."""

    tag: str
    title: str
    operations: tuple[Operation, ...]
    types: tuple[ObjectType, ...]


@cache
def list_resources(base_url: str = "") -> tuple[Resource, ...]:
    """Return all resources in alphabetical order; examples call the API at `base_url`."""
    document = get_public_schema()
    operations: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict):
                operations.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    schemas = document["components"]["schemas"]
    return tuple(_ResourceReader(schemas, base_url).read(tag, operations[tag]) for tag in sorted(operations))


def _build_title(tag: str) -> str:
    words = tag.replace("-", " ").capitalize().split()
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


class _ResourceReader:
    """Reader of the operations of one resource, which collects the types that they use."""

    def __init__(self, schemas: Schema, base_url: str) -> None:
        self._schemas = schemas
        self._base_url = base_url
        self._type_names: list[str] = []

    def read(self, tag: str, operations: list[tuple[str, str, Schema]]) -> Resource:
        read_operations = tuple(self._read_operation(*operation) for operation in operations)
        return Resource(tag, _build_title(tag), read_operations, tuple(self._list_types()))

    def _list_types(self) -> Iterator[ObjectType]:
        # Types name further types, which are added to the list meanwhile.
        for name in self._type_names:
            yield ObjectType(name, self._read_content(self._schemas[name], is_sent=False).fields)

    def _read_operation(self, method: str, path: str, operation: Schema) -> Operation:
        responses = operation["responses"]
        body = operation.get("requestBody", {}).get("content", {}).get(JSON_MEDIA_TYPE)
        return Operation(
            id=operation["operationId"],
            method=method,
            path=path,
            text=operation.get("description", ""),
            parameters=tuple(map(self._read_parameter, operation.get("parameters", ()))),
            body=self._read_content(body["schema"], is_sent=True) if body else None,
            responses=tuple(
                Response(status, self._read_response(response))
                for status, response in responses.items()
                if "$ref" not in response
            ),
            refusals=tuple(sorted(status for status, response in responses.items() if "$ref" in response)),
            example=build_curl(method, f"{self._base_url}{path}", operation, self._schemas),
        )

    def _read_parameter(self, parameter: Schema) -> Field:
        schema = {**parameter["schema"], "description": parameter.get("description", "")}
        return self._read_field(
            parameter["name"], schema, is_required=parameter.get("required", False), place=parameter["in"]
        )

    def _read_response(self, response: Schema) -> Content:
        content = response.get("content", {})
        if JSON_MEDIA_TYPE in content:
            return self._read_content(content[JSON_MEDIA_TYPE]["schema"], is_sent=False)
        if content:
            return Content(f"A file: {', '.join(f'`{media_type}`' for media_type in content)}.")
        return Content(response.get("description") or "No content.")

    def _read_content(self, schema: Schema, *, is_sent: bool) -> Content:
        resolved, text = self._resolve(schema), ""
        entries = resolved.get("properties", {}).get("results")
        if entries is not None and "next" in resolved["properties"]:
            text = "A page of a list; each entry of `results` has:"
            resolved = self._resolve(entries["items"])
        elif resolved.get("type") == "array":
            text = "A list; each entry has:"
            resolved = self._resolve(resolved["items"])
        fields = tuple(self._list_fields(resolved, is_sent=is_sent))
        if fields:
            return Content(text, fields)
        text = " ".join(filter(None, (text, resolved.get("description", ""))))
        return Content(text, type=self._read_type(resolved))

    def _list_fields(self, schema: Schema, *, is_sent: bool) -> Iterator[Field]:
        hidden = "readOnly" if is_sent else "writeOnly"
        for name, field in schema.get("properties", {}).items():
            if not field.get(hidden):
                yield self._read_field(name, field, is_required=name in schema.get("required", ()))

    def _read_field(self, name: str, schema: Schema, *, is_required: bool, place: str = "") -> Field:
        return Field(name, self._read_type(schema), is_required, self._describe(schema), place)

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].removeprefix(_REFERENCE)]
        schema = drop_null(schema)
        parts = schema.get("allOf", ())
        return {**self._resolve(parts[0]), **schema} if len(parts) == 1 else schema

    def _read_type(self, schema: Schema) -> tuple[TypePart, ...]:
        if "$ref" in schema:
            return self._read_named_type(schema["$ref"].removeprefix(_REFERENCE))
        schema = drop_null(schema)
        for key in ("allOf", "oneOf", "anyOf"):
            if key in schema:
                return _join_types(self._read_type(part) for part in schema[key])
        if schema.get("type") == "array":
            return (TypePart("list of "), *self._read_type(schema["items"]))
        return (TypePart(_FORMATS.get(schema.get("format", ""), str(schema.get("type", "any value")))),)

    def _read_named_type(self, name: str) -> tuple[TypePart, ...]:
        schema = self._schemas[name]
        if not schema.get("properties"):
            # Choices and similar types: the field's description contains them.
            return () if schema.get("enum") in ([""], [None]) else self._read_type(schema)
        if name not in self._type_names:
            self._type_names.append(name)
        return (TypePart(name, name),)

    def _describe(self, schema: Schema) -> str:
        resolved = self._resolve(schema)
        description = schema.get("description", "")
        labels = dict(_CHOICE_LINE.findall(description or resolved.get("description", "")))
        choices = [
            _describe_choice(str(choice), labels)
            for choice in self._list_choices(resolved)
            if choice not in ("", None)
        ]
        more = " and more" if len(choices) > _SHOWN_CHOICES else ""
        sentences = [
            _CHOICE_LINE.sub("", description).strip(),
            f"One of {', '.join(choices[:_SHOWN_CHOICES])}{more}." if choices else "",
        ]
        if schema.get("default") not in ("", None, [], {}):
            sentences.append(f"Default `{schema['default']}`.")
        if "maximum" in schema and "minimum" in schema:
            sentences.append(f"{schema['minimum']:,} to {schema['maximum']:,}.")
        elif "maxLength" in schema:
            sentences.append(f"At most {schema['maxLength']:,} characters.")
        return " ".join(filter(None, sentences))

    def _list_choices(self, schema: Schema) -> list[Any]:
        own = list(schema.get("enum", ()))
        return own + [
            choice for part in schema.get("oneOf", ()) for choice in self._resolve(part).get("enum", ())
        ]


def _describe_choice(choice: str, labels: Mapping[str, str]) -> str:
    """Return a choice with its label, if the label says more."""
    label = labels.get(choice, "")
    is_same = _NO_LETTERS.sub("", label.lower()) == _NO_LETTERS.sub("", choice.lower())
    return f"`{choice}`" if not label or is_same else f"`{choice}` ({label})"


def _join_types(types: Iterator[tuple[TypePart, ...]]) -> tuple[TypePart, ...]:
    """Return the alternatives as one type: "text or number"."""
    joined: list[TypePart] = []
    for alternative in dict.fromkeys(filter(None, types)):
        joined += [TypePart(" or "), *alternative] if joined else alternative
    return tuple(joined)
