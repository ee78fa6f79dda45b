"""Requests and results of ECS on the wire: a serializer that caches response shapes, and pages of lists."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from botocore import xform_name
from botocore.model import ListShape, MapShape, Shape, StructureShape
from moto.core.responses import TYPE_RESPONSE, ActionContext, ActionResult
from moto.ecs.models import ecs_backends
from moto.ecs.responses import EC2ContainerServiceResponse

from sandbox.services.ecs.errors import InvalidEcsParameter

if TYPE_CHECKING:
    from sandbox.services.ecs.backend import SandboxEcs

Writer = Callable[[Any], Any]
CONTENT_TYPE = "application/x-amz-json-1.1"
_writers: dict[str, Writer] = {}


class EcsActionResult(ActionResult):
    """Members of an operation's output; `hiding` names members to omit at all levels.

    Records have AWS's names in snake case, dicts have AWS's own names. None is omitted, as on the wire.
    """

    def __init__(self, result: dict[str, Any], *, hiding: tuple[str, str] | None = None) -> None:
        super().__init__(result)
        self.hiding = hiding

    def execute_result(self, context: ActionContext) -> TYPE_RESPONSE:
        shape = context.operation_model.output_shape
        document = _get_writer(shape)(self.result) if shape is not None else {}
        if self.hiding is not None:
            key, member = self.hiding
            for item in document.get(key, ()):
                item.pop(member, None)
        return 200, {"Content-Type": CONTENT_TYPE}, json.dumps(document)


def _get_writer(shape: Shape) -> Writer:
    """Return the JSON writer of a shape, cached for each shape."""
    writer = _writers.get(shape.name)
    if writer is None:
        # A shape may contain itself: nested writers look up the finished one.
        _writers[shape.name] = lambda value: _writers[shape.name](value)
        writer = _writers[shape.name] = _build_writer(shape)
    return writer


def _build_writer(shape: Shape) -> Writer:
    if isinstance(shape, StructureShape) and not shape.is_document_type:
        return _build_structure_writer(shape)
    if isinstance(shape, ListShape):
        member = _get_writer(shape.member)
        return lambda value: [member(item) for item in value]
    if isinstance(shape, MapShape):
        inner = _get_writer(shape.value)
        return lambda value: {str(k): inner(v) for k, v in value.items()}
    return SCALAR_WRITERS.get(shape.type_name, _write_unchanged)


def _build_structure_writer(shape: StructureShape) -> Writer:
    members = [(name, xform_name(name), _get_writer(inner)) for name, inner in shape.members.items()]

    def write(value: Any) -> dict[str, Any]:
        document = {}
        is_dict = isinstance(value, dict)
        for name, attribute, member in members:
            member_value = value.get(name) if is_dict else getattr(value, attribute, None)
            if member_value is not None:
                document[name] = member(member_value)
        return document

    return write


def _write_unchanged(value: Any) -> Any:
    return value


def _write_timestamp(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


SCALAR_WRITERS: dict[str, Writer] = {
    "timestamp": _write_timestamp,
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "double": float,
    "float": float,
}
PAGE_SIZE = 100
MAX_DESCRIBED_ARNS = 20


def paginate(
    items: Sequence[Any], params: dict[str, Any], *, key: str, size: int = PAGE_SIZE
) -> dict[str, Any]:
    """Return one page of a list, with the token of the next page."""
    limit = size if params.get("maxResults") is None else params["maxResults"]
    if not 1 <= limit <= PAGE_SIZE:
        raise InvalidEcsParameter(f"maxResults should be between 1 and {PAGE_SIZE}.")
    try:
        start = int(base64.b64decode(params.get("nextToken") or b"MA==").decode())
    except (ValueError, binascii.Error) as exc:
        raise InvalidEcsParameter("Invalid token.") from exc
    end = start + limit
    token = base64.b64encode(str(end).encode()).decode() if end < len(items) else None
    return {key: list(items[start:end]), "nextToken": token}


def select_existing(arns: Sequence[str], by_arn: dict[str, Any]) -> tuple[list[Any], list[dict[str, str]]]:
    """Return the described records, and a failure for each ARN without one."""
    if len(arns) > MAX_DESCRIBED_ARNS:
        raise InvalidEcsParameter(f"You can describe at most {MAX_DESCRIBED_ARNS} at once.")
    missing = [{"arn": arn, "reason": "MISSING"} for arn in arns if arn not in by_arn]
    return [by_arn[arn] for arn in arns if arn in by_arn], missing


class EcsResponse(EC2ContainerServiceResponse):
    """Base of the answers to ECS requests, with the back end and the parameters of the request."""

    @property
    def backend(self) -> "SandboxEcs":
        backend = ecs_backends[self.current_account][self.region]
        return cast("SandboxEcs", backend)

    @property
    def request_params(self) -> dict[str, Any]:
        params: dict[str, Any] = self._get_params()
        return params
