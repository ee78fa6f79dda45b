"""What the description of the API says beside what its serializers say by themselves."""

from collections.abc import Iterator
from typing import Any

_SCHEMAS = "#/components/schemas/"


def close_bodies(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Say of everything that is sent that it holds no other keys (see `web.bodies`)."""
    schemas = result.get("components", {}).get("schemas", {})
    sent: set[str] = set()
    new = {name for operation in _operations(result) for name in _named(operation.get("requestBody"))}
    while new:
        sent |= new
        new = {name for one in new for name in _named(schemas.get(one))} - sent
    for name in sent:
        if schemas.get(name, {}).get("properties"):
            schemas[name]["additionalProperties"] = False
    return result


def _operations(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in result.get("paths", {}).values():
        yield from (operation for operation in path.values() if isinstance(operation, dict))


def _named(part: Any) -> Iterator[str]:
    """The schemas that a part of the description refers to."""
    if isinstance(part, dict):
        if str(part.get("$ref", "")).startswith(_SCHEMAS):
            yield part["$ref"].removeprefix(_SCHEMAS)
        for inner in part.values():
            yield from _named(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _named(inner)
