"""Patterns of text fields in request schemas of the OpenAPI document."""

from typing import Any, Final, cast

from drf_spectacular.openapi import AutoSchema
from rest_framework.serializers import CharField, Field

from guards.text import NAME_PATTERN
from rbac.models.scopes import IDENTIFIER_PATTERN

# What is said here counts for what is sent alone: `web.api.openapi` takes it out of the rest.
REQUEST_ONLY_KEY: Final = "x-only-sent"
_ANY_PATTERN: Final = r"^[^\u0000]*$"
# White space at both ends is cut off before anything else is looked at.
_NOT_BLANK_PATTERN: Final = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
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
        return meta


def resolve_request_only(schema: Any, *, is_sent: bool) -> None:
    """Apply or remove the request-only parts of `schema`, at any depth."""
    if isinstance(schema, list):
        for inner in schema:
            resolve_request_only(inner, is_sent=is_sent)
    if not isinstance(schema, dict):
        return
    said = schema.pop(REQUEST_ONLY_KEY, {})
    if is_sent:
        for key, value in said.items():
            schema.setdefault(key, value)
    for inner in schema.values():
        resolve_request_only(inner, is_sent=is_sent)


def _get_pattern(field: Any) -> str:
    if field.allow_blank:
        return _ANY_PATTERN
    return _PATTERNS_BY_NAME.get(str(field.field_name), _NOT_BLANK_PATTERN)
