"""Whether what somebody says that AWS answered has the types of botocore's own models."""

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError

from aws.shapes import operation_model
from aws.walk import TYPES, WORDS, is_free

# botocore reads these as JSON where they hold it, though its models call them texts.
_TEXT_OR_JSON = ("policyDocumentType", "TemplateBody")
_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def result_fault(service: str, operation: str, result: Mapping[str, Any]) -> str:
    """The first value that no answer to this operation can hold, with its place; empty if there is none.

    Types are checked, not what must be there: AWS leaves out what is empty. Members that this botocore does
    not know, and operations that it does not know, are left alone.
    """
    try:
        shape = operation_model(service, operation).output_shape
    except (UnknownServiceError, OperationNotFoundError):
        return ""
    return "" if shape is None else next(_faults(shape, result, "result"), "")


def type_words(value: Any) -> str:
    """What a JSON value is, in words: "a list", "a number"."""
    return _NAMES.get(type(value), "a number")


def _faults(shape: Any, value: Any, place: str) -> Iterator[str]:
    if is_free(shape):
        return
    if not _fits(shape, value):
        yield f"{place} must be {WORDS[shape.type_name]}, and is {type_words(value)}"
        return
    for inner_shape, inner, inner_place in _inside(shape, value, place):
        yield from _faults(inner_shape, inner, inner_place)


def _inside(shape: Any, value: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    if shape.type_name == "structure":
        known = shape.members
        yield from ((known[name], one, f"{place}.{name}") for name, one in value.items() if name in known)
    elif shape.type_name == "list":
        yield from ((shape.member, one, f"{place}[{index}]") for index, one in enumerate(value))
    elif shape.type_name == "map":
        # Keys are names that people gave: they stay out of messages.
        yield from ((shape.value, one, f"{place}.*") for one in value.values())


def _fits(shape: Any, value: Any) -> bool:
    if shape.name in _TEXT_OR_JSON and isinstance(value, Mapping):
        return True
    types = TYPES.get(shape.type_name, (object,))
    # In Python a truth value is a number, too.
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)
