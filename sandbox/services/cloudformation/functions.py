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
            return [one for inner in value if (one := self.resolve(inner)) is not NO_VALUE]
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
        return {key: one for key, inner in value.items() if (one := self.resolve(inner)) is not NO_VALUE}

    def ref(self, name: str) -> Any:
        """Return the value of Ref."""
        if name == "AWS::NoValue":
            return NO_VALUE
        if name.startswith("AWS::"):
            return self.pseudo[name]
        return self.parameters[name] if name in self.parameters else self.physical.get(name, "")

    def get_att(self, given: Any) -> Any:
        """Return the value of GetAtt. Raises `CloudFormationError`."""
        parts = given.split(".", 1) if isinstance(given, str) else [str(self.resolve(one)) for one in given]
        name, attribute = parts[0], parts[1] if len(parts) > 1 else ""
        known = self.attributes.get(name, {})
        if name in self.physical and attribute not in known:
            raise CloudFormationError(
                f"Template error: resource {name} does not support attribute type {attribute} in Fn::GetAtt"
            )
        return known.get(attribute, "")

    def sub(self, given: Any) -> str:
        """Return the value of Sub."""
        text, own = (given[0], self.resolve(given[1])) if isinstance(given, list) else (given, {})

        def one(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return str(own[name])
            found = self.ref(name) if "." not in name else self.get_att(name)
            return ",".join(map(str, found)) if isinstance(found, list) else str(found)

        return _SUB_PATTERN.sub(one, str(text))


def _resolve_if(values: TemplateValues, given: Any) -> Any:
    return values.resolve(given[1] if values.evaluate_condition(given[0]) else given[2])


def _resolve_find_in_map(values: TemplateValues, given: Any) -> Any:
    found: Any = values.template.mappings
    for key in values.resolve(given)[:3]:
        if not isinstance(found, dict) or key not in found:
            raise CloudFormationError(
                f"Template error: Unable to get mapping for {'::'.join(map(str, values.resolve(given)))}"
            )
        found = found[key]
    return found


def _resolve_join(values: TemplateValues, given: Any) -> str:
    return str(given[0]).join(map(str, values.resolve(given[1])))


def _resolve_select(values: TemplateValues, given: Any) -> Any:
    number, listed = int(values.resolve(given[0])), values.resolve(given[1])
    if not 0 <= number < len(listed):
        raise CloudFormationError(
            "Template error: Fn::Select cannot select nonexistent value at index " + str(number)
        )
    return listed[number]


_FUNCTIONS: dict[str, Callable[[TemplateValues, Any], Any]] = {
    "Fn::GetAtt": lambda values, given: values.get_att(given),
    "Fn::Sub": lambda values, given: values.sub(given),
    "Fn::Join": _resolve_join,
    "Fn::Select": _resolve_select,
    "Fn::Split": lambda values, given: str(values.resolve(given[1])).split(str(given[0])),
    "Fn::If": _resolve_if,
    "Fn::Equals": lambda values, given: values.resolve(given[0]) == values.resolve(given[1]),
    "Fn::And": lambda values, given: all(values.resolve(given)),
    "Fn::Or": lambda values, given: any(values.resolve(given)),
    "Fn::Not": lambda values, given: not values.resolve(given)[0],
    "Fn::FindInMap": _resolve_find_in_map,
    "Fn::Base64": lambda values, given: base64.b64encode(str(values.resolve(given)).encode()).decode(),
    "Fn::GetAZs": lambda values, given: [f"{values.pseudo['AWS::Region']}{zone}" for zone in "ab"],
}
