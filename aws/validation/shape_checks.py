"""Checks of parameters and results against botocore's shapes, with exact paths."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.model import OperationNotFoundError

from aws.shapes import get_operation_model, is_document_shape
from aws.validation.problems import ParameterPath, ShapeProblem, quote_value

SHAPE_TYPE_NAMES = {
    "structure": "a mapping",
    "map": "a mapping",
    "list": "a list",
    "string": "text",
    "integer": "a whole number",
    "long": "a whole number",
    "float": "a number",
    "double": "a number",
    "boolean": "true or false",
    "timestamp": "a date and time",
    "blob": "text",
}
SHAPE_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (Mapping,),
    "map": (Mapping,),
    "list": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "timestamp": (str, int, float, datetime),
    "blob": (str, bytes),
}
# In the first and the last year, an offset leads out of the range.
_STORABLE_YEARS = range(2, 9999)
_NUMBER_TYPES = ("integer", "long", "float", "double")
# Enumerations that AWS has not extended for years: an unknown value is a mistake.
_STABLE_ENUMS = {
    "AdjustmentType",
    "AssignPublicIp",
    "Compatibility",
    "ContainerCondition",
    "DeploymentControllerType",
    "IpcMode",
    "LaunchType",
    "LogDriver",
    "NetworkMode",
    "PidMode",
    "PolicyType",
    "PropagateTags",
    "ScalableDimension",
    "SchedulingStrategy",
    "ServiceNamespace",
    "TransportProtocol",
}


def is_expression(value: Any) -> bool:
    """Return whether a value is known only during a run, so that its type is open."""
    return isinstance(value, str) and "<+" in value


def find_shape_problems(shape: Any, value: Any, path: ParameterPath = ()) -> Iterator[ShapeProblem]:
    """Yield the values that do not fit `shape`."""
    if is_expression(value):
        # The value is checked when it is resolved.
        return
    if is_document_shape(shape):
        return
    if not _has_type(shape, value):
        yield ShapeProblem(path, _describe_wrong_type(shape, value))
        return
    check = _CHECKS_BY_TYPE.get(shape.type_name)
    if check is not None:
        yield from check(shape, value, path)


def has_open_expressions(shape: Any, value: Any) -> bool:
    """Return whether an expression replaces a number, a list or a mapping, so that rules must wait."""
    if is_expression(value):
        return bool(shape.type_name != "string")
    if shape.type_name == "structure" and isinstance(value, Mapping):
        members = ((shape.members[name], inner) for name, inner in value.items() if name in shape.members)
        return any(has_open_expressions(member, inner) for member, inner in members)
    if shape.type_name == "list" and isinstance(value, list):
        return any(has_open_expressions(shape.member, inner) for inner in value)
    return False


def _check_map(shape: Any, value: Mapping[str, Any], path: ParameterPath) -> Iterator[ShapeProblem]:
    for key, inner in value.items():
        yield from find_shape_problems(shape.value, inner, (*path, key))


def _check_list(shape: Any, value: Sequence[Any], path: ParameterPath) -> Iterator[ShapeProblem]:
    yield from _check_range(shape, len(value), path, "items")
    for number, inner in enumerate(value):
        yield from find_shape_problems(shape.member, inner, (*path, number))


def _check_number(shape: Any, value: float, path: ParameterPath) -> Iterator[ShapeProblem]:
    yield from _check_range(shape, value, path, "")


def _has_type(shape: Any, value: Any) -> bool:
    allowed = SHAPE_PYTHON_TYPES.get(shape.type_name)
    if allowed is None or is_document_shape(shape):
        return True
    # In Python true is also 1; to AWS it is not.
    return isinstance(value, allowed) and (shape.type_name == "boolean" or not isinstance(value, bool))


def _describe_wrong_type(shape: Any, value: Any) -> str:
    expected = SHAPE_TYPE_NAMES.get(shape.type_name, shape.type_name)
    message = f"must be {expected}, not {quote_value(value)}"
    if shape.type_name == "string" and isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f'{message}; put it in quotes: "{text}"'
    if isinstance(value, str) and shape.type_name in (*_NUMBER_TYPES, "boolean"):
        return f"{message}; write it without quotes"
    return message


def _check_structure(shape: Any, value: Mapping[str, Any], path: ParameterPath) -> Iterator[ShapeProblem]:
    for name in shape.required_members:
        if name not in value:
            yield ShapeProblem(path, f'"{name}" is missing; AWS requires it', missing=name)
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        yield ShapeProblem(path, f"needs exactly one of {', '.join(shape.members)}")
    for name, inner in value.items():
        if name in shape.members:
            yield from find_shape_problems(shape.members[name], inner, (*path, name))
        else:
            message = _describe_unknown_key(name, list(shape.members))
            yield ShapeProblem((*path, name), message, is_unknown_key=True)


def _describe_unknown_key(name: Any, names: list[str]) -> str:
    names_by_casefold = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(str(name).casefold(), names_by_casefold, n=1, cutoff=0.6)
    if matches:
        return f'unknown key "{name}"; did you mean "{names_by_casefold[matches[0]]}"?'
    return f'unknown key "{name}"; known here: {", ".join(names[:12])}{", …" if len(names) > 12 else ""}'


def _check_text(shape: Any, value: str, path: ParameterPath) -> Iterator[ShapeProblem]:
    if shape.enum and value not in shape.enum:
        yield _build_enum_problem(shape, value, path)
    yield from _check_range(shape, len(value), path, "characters")
    pattern = str(shape.metadata.get("pattern", ""))
    # Python does not support Java's \p and surrogate classes.
    if pattern and "\\p" not in pattern and "\\u" not in pattern and not re.fullmatch(pattern, value):
        yield ShapeProblem(path, f"{quote_value(value)} does not match {pattern}")


def _build_enum_problem(shape: Any, value: str, path: ParameterPath) -> ShapeProblem:
    choices = [str(choice) for choice in shape.enum]
    choices_by_casefold = {choice.casefold(): choice for choice in choices}
    matches = get_close_matches(value.casefold(), choices_by_casefold, n=1, cutoff=0.75)
    listing = f"{', '.join(choices[:12])}{', …' if len(choices) > 12 else ''}"
    if matches:
        return ShapeProblem(
            path, f"{quote_value(value)} is not a choice; did you mean {choices_by_casefold[matches[0]]!r}?"
        )
    message = f"{quote_value(value)} is not one of {listing}"
    is_settled = shape.name in _STABLE_ENUMS
    return ShapeProblem(path, message if is_settled else f"{message}; AWS may refuse it", not is_settled)


def _check_range(shape: Any, size: float, path: ParameterPath, unit: str) -> Iterator[ShapeProblem]:
    minimum, maximum = shape.metadata.get("min"), shape.metadata.get("max")
    size_text = f"has {size} {unit}" if unit else f"is {size}"
    if minimum is not None and size < minimum:
        yield ShapeProblem(path, f"{size_text}; at least {minimum} needed")
    elif maximum is not None and size > maximum:
        yield ShapeProblem(path, f"{size_text}; at most {maximum} allowed")


_CHECKS_BY_TYPE: dict[str, Callable[[Any, Any, ParameterPath], Iterator[ShapeProblem]]] = {
    "structure": _check_structure,
    "map": _check_map,
    "list": _check_list,
    "string": _check_text,
    **dict.fromkeys(_NUMBER_TYPES, _check_number),
}
# botocore parses these as JSON, although its models call them texts.
_TEXT_OR_JSON_SHAPES = ("policyDocumentType", "TemplateBody")
_JSON_TYPE_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def find_result_problem(service: str, operation: str, result: Mapping[str, Any]) -> str:
    """Return the first value that the operation's response cannot contain, with its path, or an empty text.

    Only types are checked, not required members: AWS omits empty ones. Members and operations unknown to this
    botocore are ignored.
    """
    try:
        shape = get_operation_model(service, operation).output_shape
    except (UnknownServiceError, OperationNotFoundError):
        return ""
    return "" if shape is None else next(_find_result_problems(shape, result, "result"), "")


def describe_json_type(value: Any) -> str:
    """Return the type of a JSON value in words: "a list", "a number"."""
    return _JSON_TYPE_NAMES.get(type(value), "a number")


def _find_result_problems(shape: Any, value: Any, path: str) -> Iterator[str]:
    if is_document_shape(shape):
        return
    if not _is_result_type(shape, value):
        yield f"{path} must be {SHAPE_TYPE_NAMES[shape.type_name]}, and is {describe_json_type(value)}"
        return
    for inner_shape, inner, inner_path in _iterate_members(shape, value, path):
        yield from _find_result_problems(inner_shape, inner, inner_path)


def _iterate_members(shape: Any, value: Any, path: str) -> Iterator[tuple[Any, Any, str]]:
    if shape.type_name == "structure":
        members = shape.members
        yield from (
            (members[name], inner, f"{path}.{name}") for name, inner in value.items() if name in members
        )
    elif shape.type_name == "list":
        yield from ((shape.member, inner, f"{path}[{index}]") for index, inner in enumerate(value))
    elif shape.type_name == "map":
        # Keys are names that people gave: they stay out of messages.
        yield from ((shape.value, inner, f"{path}.*") for inner in value.values())


def _is_result_type(shape: Any, value: Any) -> bool:
    if shape.name in _TEXT_OR_JSON_SHAPES and isinstance(value, Mapping):
        return True
    if shape.type_name == "timestamp":
        return _is_timestamp(value)
    types = SHAPE_PYTHON_TYPES.get(shape.type_name, (object,))
    # In Python a truth value is a number, too.
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types or object in types)


def _is_timestamp(value: Any) -> bool:
    """Return whether a value is a time in ISO 8601 with its offset, in a year that can be stored."""
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return at.tzinfo is not None and at.year in _STORABLE_YEARS
