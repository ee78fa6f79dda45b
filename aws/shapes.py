"""What botocore's own service models say about an operation's parameters; no client, no network."""

from functools import cache
from typing import Any

import botocore
import botocore.session
from botocore.model import OperationModel, ServiceModel, StructureShape

BOTOCORE_VERSION = botocore.__version__


@cache
def service_model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


@cache
def operation_model(service: str, operation: str) -> OperationModel:
    return service_model(service).operation_model(operation)


def input_shape(service: str, operation: str) -> StructureShape:
    """The shape of an operation's parameters."""
    shape = operation_model(service, operation).input_shape
    if not isinstance(shape, StructureShape):
        raise LookupError(f"{service} {operation} takes no parameters")
    return shape


@cache
def answer_shape(service: str, operation: str, *path: str) -> Any:
    """The shape of a part of an operation's answer; of a list its items."""
    shape: Any = operation_model(service, operation).output_shape
    for part in path:
        shape = shape.members[part]
        shape = shape.member if shape.type_name == "list" else shape
    return shape


@cache
def parameters_of(service: str, operation: str) -> frozenset[str]:
    """The names of an operation's top-level parameters."""
    return frozenset(input_shape(service, operation).members)


def shape_at(service: str, operation: str, path: tuple[str | int, ...]) -> Any:
    """The shape of the value at a path of the parameters, or None if the model knows no such place."""
    shape: Any = input_shape(service, operation)
    for part in path:
        if shape.type_name == "structure":
            shape = shape.members.get(part)
        elif shape.type_name == "list":
            shape = shape.member
        elif shape.type_name == "map":
            shape = shape.value
        else:
            return None
        if shape is None:
            return None
    return shape
