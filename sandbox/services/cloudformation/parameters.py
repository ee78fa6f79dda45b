"""Parameters of stacks: given, previous and default values, validated."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.services.cloudformation.errors import CloudFormationError
from sandbox.services.cloudformation.templates import StackTemplate

_LIST_TYPES = ("CommaDelimitedList", "List<")


def resolve_parameters(
    template: StackTemplate, given: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The value of every parameter of a template. Raises `Refusal`."""
    said = dict(_read_parameter(one, before) for one in given)
    if strange := sorted(set(said) - set(template.parameters)):
        raise CloudFormationError(f"Parameters: [{', '.join(strange)}] do not exist in the template")
    defaults = {
        name: _format_value(one["Default"]) for name, one in template.parameters.items() if "Default" in one
    }
    said = {**defaults, **said}
    if lacking := [name for name in template.parameters if name not in said]:
        raise CloudFormationError(f"Parameters: [{', '.join(lacking)}] must have values")
    for name, value in said.items():
        _validate_value(name, template.parameters[name], value)
    return {name: _convert_value(template.parameters[name], value) for name, value in said.items()}


def _read_parameter(one: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[str, str]:
    name = str(one.get("ParameterKey", ""))
    if not one.get("UsePreviousValue"):
        return name, str(one.get("ParameterValue", ""))
    if before is None or name not in before:
        raise CloudFormationError(
            f"Invalid input for parameter key {name}. Cannot specify usePreviousValue as true for a "
            "parameter key not in the previous template"
        )
    return name, _format_value(before[name])


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _convert_value(body: Mapping[str, Any], value: str) -> Any:
    if str(body.get("Type", "String")).startswith(_LIST_TYPES):
        return [one.strip() for one in value.split(",")] if value else []
    return value


def _validate_value(name: str, body: Mapping[str, Any], value: str) -> None:
    allowed = [_format_value(one) for one in body.get("AllowedValues") or ()]
    if allowed and value not in allowed:
        raise CloudFormationError(f"Parameter '{name}' must be one of AllowedValues")
    pattern = body.get("AllowedPattern")
    if pattern and not re.fullmatch(str(pattern), value):
        said = body.get("ConstraintDescription")
        raise CloudFormationError(
            f"Parameter '{name}' must match pattern {pattern}"
            if not said
            else f"Parameter {name} failed to satisfy constraint: {said}"
        )
    if len(value) < int(body.get("MinLength", 0)):
        raise CloudFormationError(f"Parameter '{name}' must contain at least {body['MinLength']} characters")
    if len(value) > int(body.get("MaxLength", 4096)):
        raise CloudFormationError(
            f"Parameter '{name}' must contain at most {body.get('MaxLength', 4096)} characters"
        )
    if body.get("Type") == "Number":
        _validate_number(name, body, value)


def _validate_number(name: str, body: Mapping[str, Any], value: str) -> None:
    try:
        number = float(value)
    except ValueError as bad:
        raise CloudFormationError(f"Parameter '{name}' must be a number.") from bad
    if "MinValue" in body and number < float(body["MinValue"]):
        raise CloudFormationError(f"Parameter '{name}' must be a number not less than {body['MinValue']}")
    if "MaxValue" in body and number > float(body["MaxValue"]):
        raise CloudFormationError(f"Parameter '{name}' must be a number not greater than {body['MaxValue']}")
