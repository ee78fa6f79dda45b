"""The parameters of a stack: what was given, what was there before, what the template says they can be."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.cloudformation.errors import Refusal
from sandbox.cloudformation.templates import Template

_LISTS = ("CommaDelimitedList", "List<")


def settled(
    template: Template, given: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The value of every parameter of a template. Raises `Refusal`."""
    said = dict(_said(one, before) for one in given)
    if strange := sorted(set(said) - set(template.parameters)):
        raise Refusal(f"Parameters: [{', '.join(strange)}] do not exist in the template")
    defaults = {name: _text(one["Default"]) for name, one in template.parameters.items() if "Default" in one}
    said = {**defaults, **said}
    if lacking := [name for name in template.parameters if name not in said]:
        raise Refusal(f"Parameters: [{', '.join(lacking)}] must have values")
    for name, value in said.items():
        _check(name, template.parameters[name], value)
    return {name: _typed(template.parameters[name], value) for name, value in said.items()}


def _said(one: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[str, str]:
    name = str(one.get("ParameterKey", ""))
    if not one.get("UsePreviousValue"):
        return name, str(one.get("ParameterValue", ""))
    if before is None or name not in before:
        raise Refusal(
            f"Invalid input for parameter key {name}. Cannot specify usePreviousValue as true for a "
            "parameter key not in the previous template"
        )
    return name, _text(before[name])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _typed(body: Mapping[str, Any], value: str) -> Any:
    if str(body.get("Type", "String")).startswith(_LISTS):
        return [one.strip() for one in value.split(",")] if value else []
    return value


def _check(name: str, body: Mapping[str, Any], value: str) -> None:
    allowed = [_text(one) for one in body.get("AllowedValues") or ()]
    if allowed and value not in allowed:
        raise Refusal(f"Parameter '{name}' must be one of AllowedValues")
    pattern = body.get("AllowedPattern")
    if pattern and not re.fullmatch(str(pattern), value):
        said = body.get("ConstraintDescription")
        raise Refusal(
            f"Parameter '{name}' must match pattern {pattern}"
            if not said
            else f"Parameter {name} failed to satisfy constraint: {said}"
        )
    if len(value) < int(body.get("MinLength", 0)):
        raise Refusal(f"Parameter '{name}' must contain at least {body['MinLength']} characters")
    if len(value) > int(body.get("MaxLength", 4096)):
        raise Refusal(f"Parameter '{name}' must contain at most {body.get('MaxLength', 4096)} characters")
    if body.get("Type") == "Number":
        _check_number(name, body, value)


def _check_number(name: str, body: Mapping[str, Any], value: str) -> None:
    try:
        number = float(value)
    except ValueError as bad:
        raise Refusal(f"Parameter '{name}' must be a number.") from bad
    if "MinValue" in body and number < float(body["MinValue"]):
        raise Refusal(f"Parameter '{name}' must be a number not less than {body['MinValue']}")
    if "MaxValue" in body and number > float(body["MaxValue"]):
        raise Refusal(f"Parameter '{name}' must be a number not greater than {body['MaxValue']}")
