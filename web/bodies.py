"""What a body may hold: the keys that its serializer names, and no others, however deep."""

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework.serializers import BaseSerializer, DictField, Field, ListField, ListSerializer, Serializer
from rest_framework.views import APIView

from web.problems import BadInput

_TAKES_NOTHING: dict[tuple[type[APIView], str], bool] = {}
_NAMED = 12
_NAME_CHARACTERS = 100


def refuse_unknown(serializer: BaseSerializer[Any], body: Any) -> None:
    """Do nothing for a body whose keys are all known. Raises `BadInput` naming each other one."""
    if errors := list(_unknown(serializer, body, "")):
        raise BadInput("The input is not valid.", errors=errors)


def refuse_body(body: Any) -> None:
    """Do nothing for an empty body. Raises `BadInput` naming what is in it."""
    if body:
        errors = [_error(str(name), "is not known here; nothing is taken") for name in body]
        raise BadInput("The input is not valid: there is nothing to send.", errors=errors)


def takes_nothing(view: APIView) -> bool:
    """Whether the description of what is asked for says that it has no body (`request=None`)."""
    method = str(view.request.method)
    key = (type(view), method)
    if key not in _TAKES_NOTHING:
        _TAKES_NOTHING[key] = method in ("POST", "PUT", "PATCH") and _is_described_without(view, method)
    return _TAKES_NOTHING[key]


def _is_described_without(view: APIView, method: str) -> bool:
    handler = getattr(view, method.lower(), None)
    described = getattr(handler, "kwargs", {}).get("schema")
    if described is None:
        return False
    schema = described()
    schema.view, schema.method = view, method
    return schema.get_request_serializer() is None


def _unknown(field: Field[Any, Any, Any, Any] | None, value: Any, path: str) -> Iterator[dict[str, str]]:
    if isinstance(field, Serializer) and isinstance(value, Mapping):
        for name, inner in value.items():
            known = field.fields.get(name)
            here = f"{path}.{name}".strip(".")
            if known is None:
                yield _error(here, f"is not known here; known are {_names(field)}")
            else:
                yield from _unknown(known, inner, here)
    elif isinstance(field, ListSerializer | ListField) and isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _unknown(field.child, inner, f"{path}.{index}".strip("."))
    elif isinstance(field, DictField) and isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _unknown(field.child, inner, f"{path}.{name}".strip("."))


def _names(serializer: Serializer[Any]) -> str:
    names = sorted(serializer.fields)
    return ", ".join(names[:_NAMED] + (["…"] if len(names) > _NAMED else []))


def _error(path: str, message: str) -> dict[str, str]:
    return {"path": path[:_NAME_CHARACTERS], "message": message}
