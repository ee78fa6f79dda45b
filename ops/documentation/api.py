"""Reference pages of the REST API: one for each resource, from the OpenAPI document."""

from collections.abc import Iterator

from ops.documentation.markdown import Page, anchor, code, plain, table
from web.api.reference import Content, Field, Operation, Resource, TypePart, list_resources

FOLDER = "reference/api"


def generate() -> Iterator[Page]:
    """Yield the list of resources and a page for each."""
    resources = list_resources()
    yield Page(f"{FOLDER}/index.md", "REST API", tuple(_build_index_parts(resources)))
    for resource in resources:
        yield Page(f"{FOLDER}/{resource.tag}.md", resource.title, tuple(_build_parts(resource)))


def _build_index_parts(resources: tuple[Resource, ...]) -> Iterator[str]:
    yield (
        "Send an API key as the header `x-api-key`, or as a Bearer token. Bodies and answers are JSON. "
        "[/api/docs/](/api/docs/) has the same reference with search and an example of each request; "
        "[/api/schema/](/api/schema/) is the OpenAPI document."
    )
    yield (
        "Lists have `results` and `next`; give the cursor in `next` to read on. Errors are problem "
        "documents (RFC 9457) with `status`, `code`, `detail` and, where fields are wrong, `errors`. Every "
        "answer has the header `X-Request-Id`, which names the request in logs and in the audit trail."
    )
    rows = [
        (
            f"[{resource.title}]({resource.tag}.md)",
            ", ".join(sorted({operation.method for operation in resource.operations})),
            str(len(resource.operations)),
        )
        for resource in resources
    ]
    yield table(("Resource", "Methods", "Operations"), rows)


def _build_parts(resource: Resource) -> Iterator[str]:
    for operation in resource.operations:
        yield from _build_operation_parts(operation)
    if resource.types:
        yield "## Types"
    for object_type in resource.types:
        yield f"### {object_type.name}"
        yield from _build_content(Content(fields=object_type.fields), is_sent=False)


def _build_operation_parts(operation: Operation) -> Iterator[str]:
    yield f"## {operation.method} {operation.path}"
    yield plain(operation.text)
    if operation.parameters:
        rows = [
            (code(field.name), field.place, _format_type(field.type), _format_need(field), plain(field.text))
            for field in operation.parameters
        ]
        yield table(("Parameter", "In", "Type", "Required", "Description"), rows)
    if operation.body is not None:
        yield "**Body**"
        yield from _build_content(operation.body, is_sent=True)
    for response in operation.responses:
        yield f"**Answer {response.status}**"
        yield from _build_content(response.content, is_sent=False)
    if operation.refusals:
        yield f"Refused with {', '.join(operation.refusals)}."


def _build_content(content: Content, *, is_sent: bool) -> Iterator[str]:
    if content.text:
        yield plain(content.text)
    if content.type:
        yield f"Type: {_format_type(content.type)}."
    if content.fields:
        required = ("Required",) if is_sent else ()
        rows = [
            (
                code(field.name),
                _format_type(field.type),
                *((_format_need(field),) if is_sent else ()),
                plain(field.text),
            )
            for field in content.fields
        ]
        yield table(("Field", "Type", *required, "Description"), rows)


def _format_type(parts: tuple[TypePart, ...]) -> str:
    return "".join(f"[{part.text}](#{anchor(part.target)})" if part.target else part.text for part in parts)


def _format_need(field: Field) -> str:
    return "yes" if field.is_required else "no"
