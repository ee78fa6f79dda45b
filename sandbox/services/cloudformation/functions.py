"""Intrinsic functions of templates, resolved for one stack."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.services.cloudformation.templates import CloudFormationError, StackTemplate

_SUB_PATTERN = re.compile(r"\$\{([^}]*)\}")
NO_VALUE = object()


@dataclass
class TemplateValues:
    """Values of names: parameters, pseudo parameters, and created resources."""

    template: StackTemplate
    parameters: Mapping[str, Any]
    pseudo: Mapping[str, Any]
    physical: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def evaluate_condition(self, name: str) -> bool:
        """Return whether a condition is true."""
        if name not in self.template.conditions:
            raise CloudFormationError(f"Template format error: Unresolved condition {name}.")
        return bool(self.resolve(self.template.conditions[name]))

    def is_included(self, logical_id: str) -> bool:
        """Return whether a resource is made at all."""
        condition = self.template.resources[logical_id].get("Condition")
        return condition is None or self.evaluate_condition(condition)

    def resolve(self, value: Any) -> Any:
        """Return a part of the template with its functions filled in."""
        if isinstance(value, list):
            return [item for inner in value if (item := self.resolve(inner)) is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, inner),) = value.items()
            if name == "Ref":
                return self.ref(str(inner))
            if name == "Condition" and isinstance(inner, str):
                return self.evaluate_condition(inner)
            if name in _FUNCTIONS:
                return _FUNCTIONS[name](self, inner)
        return {key: item for key, inner in value.items() if (item := self.resolve(inner)) is not NO_VALUE}

    def ref(self, name: str) -> Any:
        """Return the value of Ref."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name.startswith("AWS::"):
            return self.pseudo[name]
        return self.parameters[name] if name in self.parameters else self.physical.get(name, "")

    def get_att(self, reference: Any) -> Any:
        """Return the value of GetAtt. Raises `CloudFormationError`."""
        parts = (
            reference.split(".", 1)
            if isinstance(reference, str)
            else [str(self.resolve(item)) for item in reference]
        )
        name, attribute = parts[0], parts[1] if len(parts) > 1 else ""
        attributes = self.attributes.get(name, {})
        if name in self.physical and attribute not in attributes:
            raise CloudFormationError(
                f"Template error: resource {name} does not support attribute type {attribute} in Fn::GetAtt"
            )
        return attributes.get(attribute, "")

    def sub(self, expression: Any) -> str:
        """Return the value of Sub."""
        text, own = (
            (expression[0], self.resolve(expression[1])) if isinstance(expression, list) else (expression, {})
        )

        def replace(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return str(own[name])
            value = self.ref(name) if "." not in name else self.get_att(name)
            return ",".join(map(str, value)) if isinstance(value, list) else str(value)

        return _SUB_PATTERN.sub(replace, str(text))


def _resolve_if(values: TemplateValues, arguments: Any) -> Any:
    return values.resolve(arguments[1] if values.evaluate_condition(arguments[0]) else arguments[2])


def _resolve_find_in_map(values: TemplateValues, arguments: Any) -> Any:
    node: Any = values.template.mappings
    for key in values.resolve(arguments)[:3]:
        if not isinstance(node, dict) or key not in node:
            raise CloudFormationError(
                f"Template error: Unable to get mapping for {'::'.join(map(str, values.resolve(arguments)))}"
            )
        node = node[key]
    return node


def _resolve_join(values: TemplateValues, arguments: Any) -> str:
    return str(arguments[0]).join(map(str, values.resolve(arguments[1])))


def _resolve_select(values: TemplateValues, arguments: Any) -> Any:
    number, listed = int(values.resolve(arguments[0])), values.resolve(arguments[1])
    if not 0 <= number < len(listed):
        raise CloudFormationError(
            "Template error: Fn::Select cannot select nonexistent value at index " + str(number)
        )
    return listed[number]


_FUNCTIONS: dict[str, Callable[[TemplateValues, Any], Any]] = {
    "Fn::GetAtt": lambda values, arguments: values.get_att(arguments),
    "Fn::Sub": lambda values, arguments: values.sub(arguments),
    "Fn::Join": _resolve_join,
    "Fn::Select": _resolve_select,
    "Fn::Split": lambda values, arguments: str(values.resolve(arguments[1])).split(str(arguments[0])),
    "Fn::If": _resolve_if,
    "Fn::Equals": lambda values, arguments: values.resolve(arguments[0]) == values.resolve(arguments[1]),
    "Fn::And": lambda values, arguments: all(values.resolve(arguments)),
    "Fn::Or": lambda values, arguments: any(values.resolve(arguments)),
    "Fn::Not": lambda values, arguments: not values.resolve(arguments)[0],
    "Fn::FindInMap": _resolve_find_in_map,
    "Fn::Base64": lambda values, arguments: base64.b64encode(
        str(values.resolve(arguments)).encode()
    ).decode(),
    "Fn::GetAZs": lambda values, arguments: [f"{values.pseudo['AWS::Region']}{zone}" for zone in "ab"],
}
