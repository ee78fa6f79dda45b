"""Reference pages of the REST API: one for each resource, from the OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from ops.documentation.markdown import Page, anchor, code, plain, table
from web.api.openapi import get_public_schema

FOLDER = "reference/api"
Schema = Mapping[str, Any]
Operation = tuple[str, str, Schema]
_REFERENCE = "#/components/schemas/"
_SHOWN_CHOICES = 12
_FORMATS = {"date-time": "time", "date": "date", "uuid": "UUID"}
_ABBREVIATIONS = {"Aws": "AWS", "Api": "API", "Iam": "IAM"}


def generate() -> Iterator[Page]:
    """Yield the list of resources and a page for each."""
    document = get_public_schema()
    operations = list_operations(document)
    yield Page(f"{FOLDER}/index.md", "REST API", tuple(_build_index_parts(operations)))
    for tag, operations_of_tag in operations.items():
        resource = ResourcePage(document["components"]["schemas"])
        yield Page(f"{FOLDER}/{tag}.md", _build_title(tag), tuple(resource.build_parts(operations_of_tag)))


def list_operations(document: Schema) -> dict[str, list[Operation]]:
    """Return method, path and description of every operation, by resource."""
    operations_by_tag: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict):
                operations_by_tag.setdefault(operation["tags"][0], []).append(
                    (method.upper(), path, operation)
                )
    return dict(sorted(operations_by_tag.items()))


def _build_title(tag: str) -> str:
    words = tag.replace("-", " ").capitalize().split()
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def _build_index_parts(operations: Mapping[str, list[Operation]]) -> Iterator[str]:
    yield (
        "Send an API key as the header `x-api-key`, or as a Bearer token. Bodies and answers are JSON. Try "
        "requests in the browser at [/api/docs/](/api/docs/), or download the OpenAPI document at "
        "[/api/schema/](/api/schema/)."
    )
    yield (
        "Lists have `results` and `next`; give the cursor in `next` to read on. Errors are problem "
        "documents (RFC 9457) with `status`, `code`, `detail` and, where fields are wrong, `errors`. Every "
        "answer has the header `X-Request-Id`, which names the request in logs and in the audit trail."
    )
    rows = [
        (
            f"[{_build_title(tag)}]({tag}.md)",
            ", ".join(sorted({method for method, _, _ in tag_operations})),
            str(len(tag_operations)),
        )
        for tag, tag_operations in operations.items()
    ]
    yield table(("Resource", "Methods", "Operations"), rows)


class ResourcePage:
    """Operations of one resource, and the types that they use."""

    def __init__(self, schemas: Schema) -> None:
        self._schemas = schemas
        self._types: list[str] = []

    def build_parts(self, operations: list[Operation]) -> Iterator[str]:
        """Yield the parts of the page."""
        for method, path, operation in operations:
            yield f"## {method} {path}"
            yield plain(operation.get("description", ""))
            yield from self._build_parameters(operation)
            yield from self._build_body(operation)
            yield from self._build_responses(operation)
        if self._types:
            yield "## Types"
        # Types name further types, which are added to the list meanwhile.
        for name in self._types:
            yield f"### {name}"
            yield from self._build_fields(self._schemas[name], is_sent=False)

    def _build_parameters(self, operation: Schema) -> Iterator[str]:
        rows = [
            (
                code(parameter["name"]),
                parameter["in"],
                self._format_type(parameter["schema"]),
                "yes" if parameter.get("required") else "no",
                self._describe({**parameter["schema"], "description": parameter.get("description", "")}),
            )
            for parameter in operation.get("parameters", ())
        ]
        if rows:
            yield table(("Parameter", "In", "Type", "Required", "Description"), rows)

    def _build_body(self, operation: Schema) -> Iterator[str]:
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content:
            yield "**Body**"
            yield from self._build_fields(content["schema"], is_sent=True)

    def _build_responses(self, operation: Schema) -> Iterator[str]:
        refusals = []
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                refusals.append(status)
                continue
            yield f"**Answer {status}**"
            content = answer.get("content", {})
            if "application/json" in content:
                yield from self._build_fields(content["application/json"]["schema"], is_sent=False)
            elif content:
                yield f"A file: {', '.join(map(code, content))}."
            else:
                yield plain(answer.get("description") or "No content.")
        if refusals:
            yield f"Refused with {', '.join(sorted(refusals))}."

    def _build_fields(self, schema: Schema, *, is_sent: bool) -> Iterator[str]:
        resolved = self._resolve(schema)
        entries = resolved.get("properties", {}).get("results")
        if entries is not None and "next" in resolved["properties"]:
            yield "A page of a list; each entry of `results` has:"
            resolved = self._resolve(entries["items"])
        elif resolved.get("type") == "array":
            yield "A list; each entry has:"
            resolved = self._resolve(resolved["items"])
        if not resolved.get("properties"):
            yield plain(resolved.get("description", "")) or f"Type: {self._format_type(resolved)}."
            return
        required = ("Required",) if is_sent else ()
        yield table(("Field", "Type", *required, "Description"), self._build_rows(resolved, is_sent=is_sent))

    def _build_rows(self, schema: Schema, *, is_sent: bool) -> Iterator[list[str]]:
        hidden = "readOnly" if is_sent else "writeOnly"
        for name, field in schema["properties"].items():
            if field.get(hidden):
                continue
            needed = ["yes" if name in schema.get("required", ()) else "no"] if is_sent else []
            yield [code(name), self._format_type(field), *needed, self._describe(field)]

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].removeprefix(_REFERENCE)]
        parts = schema.get("allOf", ())
        return {**self._resolve(parts[0]), **schema} if len(parts) == 1 else schema

    def _format_type(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self._format_named_type(schema["$ref"].removeprefix(_REFERENCE))
        for key in ("allOf", "oneOf", "anyOf"):
            if key in schema:
                return " or ".join(
                    dict.fromkeys(name for part in schema[key] if (name := self._format_type(part)))
                )
        if schema.get("type") == "array":
            return f"list of {self._format_type(schema['items'])}"
        return _FORMATS.get(schema.get("format", ""), str(schema.get("type", "any value")))

    def _format_named_type(self, name: str) -> str:
        schema = self._schemas[name]
        if not schema.get("properties"):
            # Choices and similar types: the field's description contains them.
            return "" if schema.get("enum") in ([""], [None]) else self._format_type(schema)
        if name not in self._types:
            self._types.append(name)
        return f"[{name}](#{anchor(name)})"

    def _describe(self, schema: Schema) -> str:
        resolved = self._resolve(schema)
        choices = [str(choice) for choice in self._list_choices(resolved) if choice not in ("", None)]
        choice_list = ", ".join(map(code, choices[:_SHOWN_CHOICES]))
        more = " and more" if len(choices) > _SHOWN_CHOICES else ""
        sentences = [plain(schema.get("description", "")), f"One of {choice_list}{more}." if choices else ""]
        if schema.get("default") not in ("", None, [], {}):
            sentences.append(f"Default {code(str(schema['default']))}.")
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
