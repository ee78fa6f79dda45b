"""Answers of ECS written by its model, whose shapes are taken apart once and not for every field again."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from botocore import xform_name
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.core.responses import TYPE_RESPONSE, ActionContext, ActionResult

Writer = Callable[[Any], Any]
CONTENT_TYPE = "application/x-amz-json-1.1"
_writers: dict[str, Writer] = {}


class EcsAnswer(ActionResult):
    """The members of an operation's output; `hiding` names members that are left out of everything below.

    Records give their attributes under AWS's names in snake case, dicts under AWS's own; what is None is left
    out, as on the wire.
    """

    def __init__(self, result: dict[str, Any], *, hiding: tuple[str, str] | None = None) -> None:
        super().__init__(result)
        self.hiding = hiding

    def execute_result(self, context: ActionContext) -> TYPE_RESPONSE:
        shape = context.operation_model.output_shape
        written = _writer_of(shape)(self.result) if shape is not None else {}
        if self.hiding is not None:
            key, member = self.hiding
            for item in written.get(key, ()):
                item.pop(member, None)
        return 200, {"Content-Type": CONTENT_TYPE}, json.dumps(written)


def _writer_of(shape: Shape) -> Writer:
    """What turns a value of this shape into JSON's values; made once for each shape."""
    found = _writers.get(shape.name)
    if found is None:
        # A shape may contain itself: whoever is made meanwhile looks the finished one up.
        _writers[shape.name] = lambda value: _writers[shape.name](value)
        found = _writers[shape.name] = _make(shape)
    return found


def _make(shape: Shape) -> Writer:
    if isinstance(shape, StructureShape):
        return _structure(shape)
    if isinstance(shape, ListShape):
        member = _writer_of(shape.member)
        return lambda value: [member(item) for item in value]
    if isinstance(shape, MapShape):
        inner = _writer_of(shape.value)
        return lambda value: {str(k): inner(v) for k, v in value.items()}
    return SIMPLE.get(shape.type_name, _as_it_is)


def _structure(shape: StructureShape) -> Writer:
    members = [(name, xform_name(name), _writer_of(inner)) for name, inner in shape.members.items()]

    def write(value: Any) -> dict[str, Any]:
        written = {}
        is_dict = isinstance(value, dict)
        for name, attribute, member in members:
            found = value.get(name) if is_dict else getattr(value, attribute, None)
            if found is not None:
                written[name] = member(found)
        return written

    return write


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


SIMPLE: dict[str, Writer] = {
    "timestamp": _timestamp,
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "double": float,
    "float": float,
}
