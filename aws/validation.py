"""Tells before a call what AWS would refuse: botocore's shapes, then rules that only AWS itself knows."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.validate import ParamValidator

from aws.problems import Path, ShapeProblem
from aws.rules import run_task, scaling, service_definition, task_definition
from aws.shapes import input_shape, shape_at
from aws.walk import is_expression, is_open, misfits

Rules = Callable[[Mapping[str, Any]], Iterator[ShapeProblem]]

_RULES: dict[tuple[str, str], Rules] = {
    ("ecs", "RegisterTaskDefinition"): task_definition.problems,
    ("ecs", "CreateService"): service_definition.problems,
    ("ecs", "RunTask"): run_task.problems,
    ("application-autoscaling", "RegisterScalableTarget"): scaling.target_problems,
    ("application-autoscaling", "PutScalingPolicy"): scaling.policy_problems,
}


def problems(service: str, operation: str, document: Mapping[str, Any]) -> list[ShapeProblem]:
    """Everything that is wrong with an operation's parameters, warnings included, in document order.

    The rules look only at documents whose shapes are right: what they would say of others is noise.
    """
    shape = input_shape(service, operation)
    found = list(misfits(shape, document))
    if not found and not _has_expressions(document):
        # Whatever our own walk does not know, botocore would still refuse when the call is made.
        report = ParamValidator().validate(dict(document), shape)
        if report.has_errors():
            found.append(ShapeProblem((), report.generate_report()))
    rules = _RULES.get((service, operation))
    if rules and not _is_misshapen(found) and not is_open(shape, document):
        found += rules(document)
    return found


def _is_misshapen(found: list[ShapeProblem]) -> bool:
    return any(not one.is_warning and not one.is_unknown_key for one in found)


def without_nulls(document: Any) -> Any:
    """The document without keys that are null (R166); empty values and items of lists stay."""
    if isinstance(document, Mapping):
        return {key: without_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [without_nulls(value) for value in document]
    return document


def fitted(service: str, operation: str, path: Path, value: Any) -> Any:
    """A value that an expression gave, as the type that its place wants where nothing is lost by it."""
    shape = shape_at(service, operation, path)
    return value if shape is None else fitted_value(shape, value)


def fitted_value(shape: Any, value: Any) -> Any:
    """A value as the type of a shape, where nothing is lost by it."""
    kind = shape.type_name
    if kind == "string" and isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, str):
        return value
    if kind == "boolean":
        return {"true": True, "false": False}.get(value.lower(), value)
    if kind in ("integer", "long", "float", "double"):
        return _as_number(value, kind)
    return value


def _as_number(text: str, kind: str) -> int | float | str:
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
