"""Requests and answers of the query protocol, by botocore's own model of CloudFormation."""

from typing import Any
from urllib.parse import parse_qsl

from moto.core.parse import QueryParser
from moto.core.serialize import QuerySerializer
from moto.core.utils import get_service_model
from werkzeug.datastructures import MultiDict

from sandbox.cloudformation.errors import Refusal
from sandbox.wire import Answer, Call, error_answer

SERVICE = "cloudformation"


def asked(call: Call, body: bytes) -> dict[str, Any]:
    """The parameters of a request."""
    form = MultiDict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    model = get_service_model(SERVICE).operation_model(call.operation)
    found: dict[str, Any] = QueryParser(model).parse({"values": form})
    return found


def answered(call: Call, result: dict[str, Any]) -> Answer:
    """The answer with this result."""
    model = get_service_model(SERVICE).operation_model(call.operation)
    said = QuerySerializer(operation_model=model).serialize(result)
    body = said["body"]
    return Answer(
        int(said["status_code"]),
        tuple(said["headers"].items()),
        body.encode() if isinstance(body, str) else bytes(body),
    )


def refused(call: Call, refusal: Refusal) -> Answer:
    """The answer of a refusal."""
    return error_answer(call, 400, refusal.code, refusal.message)
