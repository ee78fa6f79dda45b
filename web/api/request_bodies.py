"""Validation of request bodies: only the keys and types of the serializer, at every depth."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from rest_framework.serializers import (
    BaseSerializer,
    BooleanField,
    CharField,
    ChoiceField,
    DictField,
    Field,
    FloatField,
    IntegerField,
    ListField,
    ListSerializer,
    Serializer,
)
from rest_framework.views import APIView

from web.http.problems import BadInput


def _is_whole_number(value: Any) -> bool:
    """Return whether a value is an integer of JSON Schema: 1.0 is the same number as 1."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


_BODILESS_CACHE: dict[tuple[type[APIView], str], bool] = {}
_FIELD_TYPES: tuple[tuple[type[Any], Callable[[Any], bool], str], ...] = (
    (CharField, lambda value: isinstance(value, str), "a text"),
    (BooleanField, lambda value: isinstance(value, bool), "true or false"),
    (IntegerField, _is_whole_number, "a whole number"),
    (FloatField, lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
)
_READ_ONLY_MESSAGE = "is read-only and has the value {shown}; send it unchanged or leave it out"
_MOST_NAMES = 12
_NAME_CHARACTERS = 100


def validate_body(serializer: BaseSerializer[Any], body: Any) -> None:
    """Check that all keys of a body are known and have the documented type.

    The framework would accept 0 as a text and "yes" as true. Raises `BadInput` with each path.
    """
    if errors := list(_find_errors(serializer, body, "")):
        raise BadInput("The input is not valid.", errors=errors)


def validate_empty_body(body: Any) -> None:
    """Check that a body is empty. Raises `BadInput` with its keys."""
    if body:
        errors = [_build_error(str(name), "unknown field; this request takes no fields") for name in body]
        raise BadInput("The input is not valid: this request takes no fields.", errors=errors)


def drop_unchanged(
    body: Mapping[str, Any],
    document: Mapping[str, Any],
    *,
    accepted: Collection[str],
    needed: Collection[str],
) -> dict[str, Any]:
    """Return `body` without values that equal `document`; `needed` keys stay.

    Keys that are neither `accepted` nor in `document` stay for `validate_body`. Raises `BadInput` for each
    unknown key whose value differs.
    """
    readable = [name for name in body if name in document and name not in needed]
    same = {name for name in readable if body[name] == document[name]}
    if changed := [name for name in readable if name not in same and name not in accepted]:
        errors = [
            _build_error(name, _READ_ONLY_MESSAGE.format(shown=_format_value(document[name])))
            for name in changed
        ]
        raise BadInput("The input is not valid.", errors=errors)
    return {name: value for name, value in body.items() if name not in same}


def is_bodiless(view: APIView) -> bool:
    """Return whether the OpenAPI document declares no body (`request=None`)."""
    method = str(view.request.method)
    key = (type(view), method)
    if key not in _BODILESS_CACHE:
        _BODILESS_CACHE[key] = method in ("POST", "PUT", "PATCH") and _is_described_bodiless(view, method)
    return _BODILESS_CACHE[key]


def _is_described_bodiless(view: APIView, method: str) -> bool:
    handler = getattr(view, method.lower(), None)
    described = getattr(handler, "kwargs", {}).get("schema")
    if described is None:
        return False
    schema = described()
    schema.view, schema.method = view, method
    return schema.get_request_serializer() is None


def _find_errors(field: Field[Any, Any, Any, Any] | None, value: Any, path: str) -> Iterator[dict[str, str]]:
    if isinstance(field, Serializer) and isinstance(value, Mapping):
        yield from _find_key_errors(field, value, path)
    elif isinstance(field, ListSerializer | ListField) and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _find_errors(field.child, inner, _join_path(path, index))
    elif isinstance(field, DictField) and isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _find_errors(field.child, inner, _join_path(path, name))
    elif expected := _find_type_mismatch(field, value):
        yield _build_error(path, f"must be {expected}")
    elif type(field) is ChoiceField and isinstance(value, str) and not _is_choice(field, value):
        yield _build_error(path, f"unknown value; use one of {_join_names(map(str, field.choices))}")


def _find_key_errors(
    serializer: Serializer[Any], value: Mapping[str, Any], path: str
) -> Iterator[dict[str, str]]:
    for name, inner in value.items():
        field = serializer.fields.get(name)
        if field is None:
            yield _build_error(
                _join_path(path, name), f"unknown field; use one of {_list_field_names(serializer)}"
            )
        else:
            yield from _find_errors(field, inner, _join_path(path, name))


def _find_type_mismatch(field: Field[Any, Any, Any, Any] | None, value: Any) -> str:
    """Return the expected type of a value for a framework field; an empty text if the value fits."""
    # Our own fields that convert values also validate their types.
    convert = getattr(type(field), "to_internal_value", None)
    if value is None or convert is None or convert.__module__ != Field.__module__:
        return ""
    matches = (
        (takes(value), description) for kind, takes, description in _FIELD_TYPES if isinstance(field, kind)
    )
    takes, description = next(matches, (True, ""))
    return "" if takes else description


def _is_choice(field: ChoiceField, value: str) -> bool:
    return value in map(str, field.choices) or (value == "" and field.allow_blank)


def _join_path(path: str, name: object) -> str:
    return f"{path}.{name}".strip(".")


def _list_field_names(serializer: Serializer[Any]) -> str:
    return _join_names(sorted(serializer.fields))


def _join_names(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_MOST_NAMES] + (["…"] if len(listed) > _MOST_NAMES else []))


def _format_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _NAME_CHARACTERS else f"{text[:_NAME_CHARACTERS]}…"


def _build_error(path: str, message: str) -> dict[str, str]:
    return {"path": path[:_NAME_CHARACTERS], "message": message}
