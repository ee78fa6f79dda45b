"""What the description says of texts that are sent, beside what the framework says: which are taken."""

from typing import Any, Final, cast

from drf_spectacular.openapi import AutoSchema
from rest_framework.serializers import CharField, Field

from guards.text import NAME_PATTERN
from rbac.models.scope import IDENTIFIER_PATTERN

# What is said here counts for what is sent alone: `web.described` takes it out of the rest.
ONLY_SENT: Final = "x-only-sent"
_ANYTHING: Final = r"^[^\u0000]*$"
# White space at both ends is cut off before anything else is looked at.
_NOT_BLANK: Final = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
_BY_NAME: Final = {"name": NAME_PATTERN, "identifier": IDENTIFIER_PATTERN.replace(r"\Z", "$")}


class Described(AutoSchema):
    """Describes each text that is sent as precisely as it is read."""

    def _get_serializer_field_meta(self, field: Any, direction: str) -> dict[str, Any]:
        meta = cast(dict[str, Any], super()._get_serializer_field_meta(field, direction))
        if (
            isinstance(field, CharField)
            and not field.read_only
            and type(field).__module__ == Field.__module__
        ):
            if not field.allow_blank and meta.get("default") == "":
                del meta["default"]
            meta[ONLY_SENT] = {"pattern": _pattern_of(field)}
        return meta


def say_what_is_sent(schema: Any, *, is_sent: bool) -> None:
    """Move what counts for what is sent to its place in `schema`, however deep, or take it out."""
    if isinstance(schema, list):
        for inner in schema:
            say_what_is_sent(inner, is_sent=is_sent)
    if not isinstance(schema, dict):
        return
    said = schema.pop(ONLY_SENT, {})
    if is_sent:
        for key, value in said.items():
            schema.setdefault(key, value)
    for inner in schema.values():
        say_what_is_sent(inner, is_sent=is_sent)


def _pattern_of(field: Any) -> str:
    if field.allow_blank:
        return _ANYTHING
    return _BY_NAME.get(str(field.field_name), _NOT_BLANK)
