"""The answer to a write that was not sent: what was asked for, in the shape that AWS answers in."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.model import StructureShape

from aws.shapes import operation_model

_NAMING = ("Arn", "ARN", "arn", "Id", "id")


def echoed(
    service: str, operation: str, params: Mapping[str, Any], name: Callable[[str], str]
) -> dict[str, Any]:
    """The members of the answer that the parameters name too; `name` gives the ids that AWS would give."""
    output = operation_model(service, operation).output_shape
    if not isinstance(output, StructureShape):
        return {}
    answer = _members(output, params, name)
    for member, shape in output.members.items():
        if isinstance(shape, StructureShape):
            answer[member] = _members(shape, params, name)
    return answer


def _members(shape: StructureShape, params: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    found = {member: params[member] for member in shape.members if member in params}
    for member, one in shape.members.items():
        if member not in found and one.type_name == "string" and member.endswith(_NAMING):
            found[member] = name(member)
    return found
