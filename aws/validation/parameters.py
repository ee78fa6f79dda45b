"""Validation of call parameters: botocore's shapes first, then the rules of AWS."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.validate import ParamValidator

from aws.shapes import find_shape, get_input_shape
from aws.validation.problems import ParameterPath, ShapeProblem
from aws.validation.rules import launch_settings, scaling, service_definitions, task_definitions
from aws.validation.shape_checks import find_shape_problems, has_open_expressions, is_expression
from guards.json_parser import format_number

ParameterRules = Callable[[Mapping[str, Any]], Iterator[ShapeProblem]]

_RULES_BY_OPERATION: dict[tuple[str, str], ParameterRules] = {
    ("ecs", "RegisterTaskDefinition"): task_definitions.validate_task_definition,
    ("ecs", "CreateService"): service_definitions.validate_service_definition,
    ("ecs", "RunTask"): launch_settings.validate_run_task,
    ("application-autoscaling", "RegisterScalableTarget"): scaling.validate_scalable_target,
    ("application-autoscaling", "PutScalingPolicy"): scaling.validate_scaling_policy,
}


def validate_parameters(service: str, operation: str, document: Mapping[str, Any]) -> list[ShapeProblem]:
    """Return all problems of an operation's parameters, with warnings, in document order.

    The rules run only on documents with valid shapes; on others their results would be noise.
    """
    shape = get_input_shape(service, operation)
    problems = list(find_shape_problems(shape, document))
    if not problems and not _has_expressions(document):
        # botocore would refuse the remaining problems when the call is made.
        report = ParamValidator().validate(dict(document), shape)
        if report.has_errors():
            problems.append(ShapeProblem((), report.generate_report()))
    rules = _RULES_BY_OPERATION.get((service, operation))
    if rules and not _has_shape_errors(problems) and not has_open_expressions(shape, document):
        problems += rules(document)
    return problems


def _has_shape_errors(problems: list[ShapeProblem]) -> bool:
    return any(not problem.is_warning and not problem.is_unknown_key for problem in problems)


def remove_nulls(document: Any) -> Any:
    """Return the document without keys that are null (R166); empty values and items of lists stay."""
    if isinstance(document, Mapping):
        return {key: remove_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [remove_nulls(value) for value in document]
    return document


def convert_parameter(service: str, operation: str, path: ParameterPath, value: Any) -> Any:
    """Return an expression's value, converted to the type of its field if the conversion is lossless."""
    shape = find_shape(service, operation, path)
    return value if shape is None else convert_value(shape, value)


def convert_value(shape: Any, value: Any) -> Any:
    """Return a value in the type of a shape if the conversion is lossless."""
    kind = shape.type_name
    if kind == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else format_number(value)
    if not isinstance(value, str):
        return value
    if kind == "boolean":
        return {"true": True, "false": False}.get(value.lower(), value)
    if kind in ("integer", "long", "float", "double"):
        return _parse_number(value, kind)
    return value


def _parse_number(text: str, kind: str) -> int | float | str:
    try:
        return int(text) if kind in ("integer", "long") else float(text)
    except ValueError:
        return text


def _has_expressions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_expressions, value.values()))
    if isinstance(value, list):
        return any(map(_has_expressions, value))
    return is_expression(value)
