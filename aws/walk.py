"""Walks parameters along botocore's shapes and says, in our words and with exact places, what does not fit.

`ParamValidator` checks less (no enums, maxima or patterns) and names places only as text;
a test holds the two against each other.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from aws.problems import Path, ShapeProblem, shown

WORDS = {
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
TYPES: dict[str, tuple[type, ...]] = {
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
_NUMBERS = ("integer", "long", "float", "double")
# Lists of values that AWS has not added to for years: an unknown one is a mistake, not news.
_SETTLED = {
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
    """Whether a value will only be known when an execution runs, so that its type says nothing."""
    return isinstance(value, str) and "<+" in value


def is_free(shape: Any) -> bool:
    """Whether a shape is a document: AWS takes any JSON value there, such as the hookDetails of a hook."""
    return bool(getattr(shape, "is_document_type", False))


def misfits(shape: Any, value: Any, path: Path = ()) -> Iterator[ShapeProblem]:
    """Everything in `value` that does not fit `shape`."""
    if is_expression(value):
        # What it will be is checked when it is known.
        return
    if is_free(shape):
        return
    if not _has_type(shape, value):
        yield ShapeProblem(path, _wrong_type(shape, value))
        return
    inside = _INSIDE.get(shape.type_name)
    if inside is not None:
        yield from inside(shape, value, path)


def is_open(shape: Any, value: Any) -> bool:
    """Whether an expression stands where a number, a list or a mapping belongs, so that rules must wait."""
    if is_expression(value):
        return bool(shape.type_name != "string")
    if shape.type_name == "structure" and isinstance(value, Mapping):
        known = ((shape.members[name], inner) for name, inner in value.items() if name in shape.members)
        return any(is_open(member, inner) for member, inner in known)
    if shape.type_name == "list" and isinstance(value, list):
        return any(is_open(shape.member, inner) for inner in value)
    return False


def _in_map(shape: Any, value: Mapping[str, Any], path: Path) -> Iterator[ShapeProblem]:
    for key, inner in value.items():
        yield from misfits(shape.value, inner, (*path, key))


def _in_list(shape: Any, value: Sequence[Any], path: Path) -> Iterator[ShapeProblem]:
    yield from _out_of_range(shape, len(value), path, "items")
    for number, inner in enumerate(value):
        yield from misfits(shape.member, inner, (*path, number))


def _in_number(shape: Any, value: float, path: Path) -> Iterator[ShapeProblem]:
    yield from _out_of_range(shape, value, path, "")


def _has_type(shape: Any, value: Any) -> bool:
    allowed = TYPES.get(shape.type_name)
    if allowed is None or is_free(shape):
        return True
    # In Python true is also 1; to AWS it is not.
    return isinstance(value, allowed) and (shape.type_name == "boolean" or not isinstance(value, bool))


def _wrong_type(shape: Any, value: Any) -> str:
    wanted = WORDS.get(shape.type_name, shape.type_name)
    message = f"must be {wanted}, not {shown(value)}"
    if shape.type_name == "string" and isinstance(value, int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f'{message}; put it in quotes: "{text}"'
    if isinstance(value, str) and shape.type_name in (*_NUMBERS, "boolean"):
        return f"{message}; write it without quotes"
    return message


def _in_structure(shape: Any, value: Mapping[str, Any], path: Path) -> Iterator[ShapeProblem]:
    for name in shape.required_members:
        if name not in value:
            yield ShapeProblem(path, f'"{name}" is missing; AWS requires it', missing=name)
    if getattr(shape, "is_tagged_union", False) and len(value) != 1:
        yield ShapeProblem(path, f"needs exactly one of {', '.join(shape.members)}")
    for name, inner in value.items():
        if name in shape.members:
            yield from misfits(shape.members[name], inner, (*path, name))
        else:
            message = _unknown(name, list(shape.members))
            yield ShapeProblem((*path, name), message, is_unknown_key=True)


def _unknown(name: Any, known: list[str]) -> str:
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.6)
    if near:
        return f'unknown key "{name}"; did you mean "{folded[near[0]]}"?'
    return f'unknown key "{name}"; known here: {", ".join(known[:12])}{", …" if len(known) > 12 else ""}'


def _in_text(shape: Any, value: str, path: Path) -> Iterator[ShapeProblem]:
    if shape.enum and value not in shape.enum:
        yield _unknown_choice(shape, value, path)
    yield from _out_of_range(shape, len(value), path, "characters")
    pattern = str(shape.metadata.get("pattern", ""))
    # Java's \p and surrogate classes mean nothing, or something else, to Python.
    if pattern and "\\p" not in pattern and "\\u" not in pattern and not re.fullmatch(pattern, value):
        yield ShapeProblem(path, f"{shown(value)} does not match {pattern}")


def _unknown_choice(shape: Any, value: str, path: Path) -> ShapeProblem:
    known = [str(one) for one in shape.enum]
    folded = {one.casefold(): one for one in known}
    near = get_close_matches(value.casefold(), folded, n=1, cutoff=0.75)
    choices = f"{', '.join(known[:12])}{', …' if len(known) > 12 else ''}"
    if near:
        return ShapeProblem(path, f"{shown(value)} is not a choice; did you mean {folded[near[0]]!r}?")
    message = f"{shown(value)} is not one of {choices}"
    is_settled = shape.name in _SETTLED
    return ShapeProblem(path, message if is_settled else f"{message}; AWS may refuse it", not is_settled)


def _out_of_range(shape: Any, size: float, path: Path, unit: str) -> Iterator[ShapeProblem]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    has = f"has {size} {unit}" if unit else f"is {size}"
    if least is not None and size < least:
        yield ShapeProblem(path, f"{has}; at least {least} needed")
    elif most is not None and size > most:
        yield ShapeProblem(path, f"{has}; at most {most} allowed")


_INSIDE: dict[str, Callable[[Any, Any, Path], Iterator[ShapeProblem]]] = {
    "structure": _in_structure,
    "map": _in_map,
    "list": _in_list,
    "string": _in_text,
    **dict.fromkeys(_NUMBERS, _in_number),
}
