"""Properties of resources as parameters of AWS calls, by the shapes of botocore's models."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape

from sandbox.services.cloudformation.templates import ResourceFailed


def list_members(service: str, operation: str) -> frozenset[str]:
    """Return the parameters of an operation, spelled as properties."""
    return frozenset(name[0].upper() + name[1:] for name in _get_input_shape(service, operation).members)


def build_params(
    service: str, operation: str, properties: Mapping[str, Any], besides: Iterable[str] = ()
) -> dict[str, Any]:
    """Return properties as parameters of an operation: names and types are those of its shape.

    `besides` names properties that go elsewhere. Raises `ResourceFailed` for one that the operation lacks.
    """
    given = {name: value for name, value in properties.items() if name not in besides}
    params: dict[str, Any] = _convert(_get_input_shape(service, operation), given, "#")
    return params


@cache
def _get_input_shape(service: str, operation: str) -> StructureShape:
    model = botocore.session.get_session().get_service_model(service)
    shape = model.operation_model(operation).input_shape
    if shape is None:
        raise ValueError(f"{service}:{operation} has no parameters")
    return shape


def _convert(shape: Shape, value: Any, place: str) -> Any:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        return _convert_structure(shape, value, place)
    if isinstance(shape, ListShape) and isinstance(value, list):
        return [_convert(shape.member, item, f"{place}/{number}") for number, item in enumerate(value)]
    if isinstance(shape, MapShape) and isinstance(value, Mapping):
        return {str(key): _convert(shape.value, item, f"{place}/{key}") for key, item in value.items()}
    try:
        return _convert_scalar(shape.type_name, value)
    except ValueError as bad:
        raise ResourceFailed(
            f"Properties validation failed for {place}: expected type: {shape.type_name}"
        ) from bad


def _convert_structure(shape: StructureShape, value: Mapping[str, Any], place: str) -> dict[str, Any]:
    names = {name.lower(): name for name in shape.members}
    params = {}
    for key, item in value.items():
        if (name := names.get(key.lower())) is None:
            raise ResourceFailed(
                f"Properties validation failed: {place}: extraneous key [{key}] is not permitted"
            )
        params[name] = _convert(shape.members[name], item, f"{place}/{key}")
    return params


def _convert_scalar(type_name: str, value: Any) -> Any:
    if type_name == "string" and not isinstance(value, (dict, list)):
        return ("true" if value else "false") if isinstance(value, bool) else str(value)
    if type_name in ("integer", "long") and isinstance(value, (str, int)):
        return int(value)
    if type_name in ("float", "double") and isinstance(value, (str, int, float)):
        return float(value)
    if type_name == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(type_name)
