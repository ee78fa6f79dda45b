"""Templates in YAML or JSON and their parameters, parsed and validated as CloudFormation does."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml


class CloudFormationError(Exception):
    """A request that CloudFormation rejects; `code` is AWS's."""

    def __init__(self, message: str, code: str = "ValidationError") -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ResourceFailed(Exception):
    """A failed creation, update or deletion of a resource; the message is the reason in its event."""


SECTIONS = (
    "AWSTemplateFormatVersion",
    "Description",
    "Metadata",
    "Parameters",
    "Mappings",
    "Conditions",
    "Rules",
    "Resources",
    "Outputs",
)
PSEUDO_PARAMETERS = (
    "AccountId",
    "NotificationARNs",
    "NoValue",
    "Partition",
    "Region",
    "StackId",
    "StackName",
    "URLSuffix",
)
MAX_BODY_BYTES = 51_200
_IAM_TYPES = (
    "AWS::IAM::Role",
    "AWS::IAM::Policy",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::User",
    "AWS::IAM::Group",
)
_IAM_NAME_PROPERTIES = ("RoleName", "PolicyName", "ManagedPolicyName", "UserName", "GroupName")
_SUB_PATTERN = re.compile(r"\$\{([^!}][^}]*)\}")


class _TemplateLoader(yaml.SafeLoader):
    """YAML loader for the short forms of functions; dates stay text."""


_TemplateLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _construct_function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    if name == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


_TemplateLoader.add_multi_constructor("!", _construct_function)


@dataclass(frozen=True)
class StackTemplate:
    """A template that was read."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""

    @property
    def hidden(self) -> set[str]:
        """Return the parameters with values that CloudFormation does not show."""
        return {n for n, body in self.parameters.items() if str(body.get("NoEcho", "")).lower() == "true"}

    @property
    def capabilities(self) -> list[str]:
        """Return the capabilities that creating the stack requires."""
        iam_resources = [
            resource for resource in self.resources.values() if resource.get("Type") in _IAM_TYPES
        ]
        if not iam_resources:
            return []
        named = any(
            name in (resource.get("Properties") or {})
            for resource in iam_resources
            for name in _IAM_NAME_PROPERTIES
        )
        return ["CAPABILITY_NAMED_IAM"] if named else ["CAPABILITY_IAM"]

    def order(self) -> list[str]:
        """Return the resources in the order of their creation.

        Raises `CloudFormationError` for a circular dependency.
        """
        needs = {
            name: {
                reference
                for reference in (*find_references(body), *_list_dependencies(body))
                if reference in self.resources
            }
            for name, body in self.resources.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as cycle:
            names = ", ".join(sorted(set(cycle.args[1])))
            raise CloudFormationError(f"Circular dependency between resources: [{names}]") from cycle


def parse_template(text: str, is_known_type: Callable[[str], bool]) -> StackTemplate:
    """Parse a template. Raises `CloudFormationError` with CloudFormation's message."""
    try:
        # Derived from the safe loader, so it creates only plain values.
        value = yaml.load(text, _TemplateLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError) as bad:
        at = getattr(bad, "problem_mark", None)
        where = f" (line {at.line + 1}, column {at.column + 1})" if at else ""
        raise CloudFormationError(f"Template format error: YAML not well-formed.{where}") from bad
    if not isinstance(value, dict):
        raise CloudFormationError("Template format error: unsupported structure.")
    if unknown := [str(name) for name in value if name not in SECTIONS]:
        raise CloudFormationError(f"Invalid template property or properties [{', '.join(unknown)}]")
    for name in SECTIONS[3:]:
        if not isinstance(value.get(name) or {}, dict):
            raise CloudFormationError(f"Template format error: {name} must be an object")
    template = StackTemplate(
        text,
        parameters=value.get("Parameters") or {},
        mappings=value.get("Mappings") or {},
        conditions=value.get("Conditions") or {},
        resources=value.get("Resources") or {},
        outputs=value.get("Outputs") or {},
        description=str(value.get("Description") or ""),
    )
    _validate_template(template, is_known_type)
    return template


def _validate_template(template: StackTemplate, is_known_type: Callable[[str], bool]) -> None:
    if not template.resources:
        raise CloudFormationError("Template format error: At least one Resources member must be defined.")
    _validate_resources(template, is_known_type)
    _validate_names(template)
    for name, output in template.outputs.items():
        if not isinstance(output, dict) or "Value" not in output:
            raise CloudFormationError(f"Template format error: Output {name} is malformed.")
    template.order()


def _validate_resources(template: StackTemplate, is_known_type: Callable[[str], bool]) -> None:
    for name, body in template.resources.items():
        if not isinstance(body, dict) or not isinstance(body.get("Type"), str):
            raise CloudFormationError(
                f"Template format error: [/Resources/{name}] Every Resources object must contain a Type "
                "member."
            )
        if not str(name).isalnum():
            raise CloudFormationError(f"Template format error: Resource name {name} is non alphanumeric.")
    types = {resource["Type"] for resource in template.resources.values()}
    if strange := sorted(name for name in types if not is_known_type(name)):
        raise CloudFormationError(
            f"Template format error: Unrecognized resource types: [{', '.join(strange)}]"
        )


def _validate_names(template: StackTemplate) -> None:
    declared = {*template.resources, *template.parameters, *(f"AWS::{name}" for name in PSEUDO_PARAMETERS)}
    for section, inside in (("Resources", template.resources), ("Outputs", template.outputs)):
        if unresolved := sorted(
            {reference for reference in find_references(inside) if reference not in declared}
        ):
            raise CloudFormationError(
                f"Template format error: Unresolved resource dependencies [{', '.join(unresolved)}] in the "
                f"{section} block of the template"
            )


def find_references(value: Any) -> Iterator[str]:
    """Return every name that a part of a template refers to."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Ref":
                yield str(inner)
            elif key == "Fn::GetAtt":
                yield str(inner[0] if isinstance(inner, list) else str(inner).split(".")[0])
            elif key == "Fn::Sub":
                yield from _find_sub_references(inner)
            else:
                yield from find_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from find_references(inner)


def _find_sub_references(value: Any) -> Iterator[str]:
    text, own = (value[0], value[1]) if isinstance(value, list) and len(value) == 2 else (value, {})
    yield from find_references(own)
    for name in _SUB_PATTERN.findall(str(text)):
        if name not in own:
            yield name if name.startswith("AWS::") else name.split(".")[0]


def _list_dependencies(body: Mapping[str, Any]) -> list[str]:
    names = body.get("DependsOn") or []
    return [names] if isinstance(names, str) else list(names)


_LIST_TYPES = ("CommaDelimitedList", "List<")


def resolve_parameters(
    template: StackTemplate, supplied: Sequence[Mapping[str, Any]], before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the value of every parameter of a template. Raises `CloudFormationError`."""
    values = dict(_read_parameter(parameter, before) for parameter in supplied)
    if strange := sorted(set(values) - set(template.parameters)):
        raise CloudFormationError(f"Parameters: [{', '.join(strange)}] do not exist in the template")
    defaults = {
        name: _format_value(body["Default"])
        for name, body in template.parameters.items()
        if "Default" in body
    }
    values = {**defaults, **values}
    if missing := [name for name in template.parameters if name not in values]:
        raise CloudFormationError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        _validate_value(name, template.parameters[name], value)
    return {name: _convert_value(template.parameters[name], value) for name, value in values.items()}


def _read_parameter(supplied: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[str, str]:
    name = str(supplied.get("ParameterKey", ""))
    if not supplied.get("UsePreviousValue"):
        return name, str(supplied.get("ParameterValue", ""))
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
        return [item.strip() for item in value.split(",")] if value else []
    return value


def _validate_value(name: str, body: Mapping[str, Any], value: str) -> None:
    allowed = [_format_value(allowed_value) for allowed_value in body.get("AllowedValues") or ()]
    if allowed and value not in allowed:
        raise CloudFormationError(f"Parameter '{name}' must be one of AllowedValues")
    pattern, items = body.get("AllowedPattern"), _convert_value(body, value)
    # CloudFormation matches each value of a list.
    each = items if isinstance(items, list) else [value]
    if pattern and not all(re.fullmatch(str(pattern), item) for item in each):
        description = body.get("ConstraintDescription")
        raise CloudFormationError(
            f"Parameter '{name}' must match pattern {pattern}"
            if not description
            else f"Parameter {name} failed to satisfy constraint: {description}"
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
