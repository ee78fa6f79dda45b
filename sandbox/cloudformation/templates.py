"""Templates: YAML with CloudFormation's tags, or JSON, read and checked as CloudFormation checks them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml

from sandbox.cloudformation.errors import Refusal

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
PSEUDO = (
    "AccountId",
    "NotificationARNs",
    "NoValue",
    "Partition",
    "Region",
    "StackId",
    "StackName",
    "URLSuffix",
)
LARGEST_BODY = 51_200
_IAM = ("AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::User", "AWS::IAM::Group")
_NAMES = ("RoleName", "PolicyName", "ManagedPolicyName", "UserName", "GroupName")
_IN_SUB = re.compile(r"\$\{([^!}][^}]*)\}")


class _Loader(yaml.SafeLoader):
    """Reads the short forms of functions, and leaves dates as they are written."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _function(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
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


_Loader.add_multi_constructor("!", _function)


@dataclass(frozen=True)
class Template:
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
        """The parameters whose values CloudFormation does not show."""
        return {n for n, one in self.parameters.items() if str(one.get("NoEcho", "")).lower() == "true"}

    @property
    def capabilities(self) -> list[str]:
        """What whoever makes a stack of it has to agree to."""
        found = [one for one in self.resources.values() if one.get("Type") in _IAM]
        if not found:
            return []
        named = any(name in (one.get("Properties") or {}) for one in found for name in _NAMES)
        return ["CAPABILITY_NAMED_IAM"] if named else ["CAPABILITY_IAM"]

    def order(self) -> list[str]:
        """The resources in the order in which they are made. Raises `Refusal` where they need each other."""
        needs = {
            name: {one for one in (*named_in(body), *_depends_on(body)) if one in self.resources}
            for name, body in self.resources.items()
        }
        try:
            return list(TopologicalSorter(needs).static_order())
        except CycleError as cycle:
            names = ", ".join(sorted(set(cycle.args[1])))
            raise Refusal(f"Circular dependency between resources: [{names}]") from cycle


def read_template(text: str, known_types: frozenset[str]) -> Template:
    """Read a template. Raises `Refusal` as CloudFormation words it."""
    try:
        # A loader made from the safe one: it makes nothing but plain values.
        value = yaml.load(text, _Loader)  # noqa: S506
    except (yaml.YAMLError, RecursionError) as bad:
        at = getattr(bad, "problem_mark", None)
        where = f" (line {at.line + 1}, column {at.column + 1})" if at else ""
        raise Refusal(f"Template format error: YAML not well-formed.{where}") from bad
    if not isinstance(value, dict):
        raise Refusal("Template format error: unsupported structure.")
    if unknown := [str(name) for name in value if name not in SECTIONS]:
        raise Refusal(f"Invalid template property or properties [{', '.join(unknown)}]")
    for name in SECTIONS[3:]:
        if not isinstance(value.get(name) or {}, dict):
            raise Refusal(f"Template format error: {name} must be an object")
    template = Template(
        text,
        parameters=value.get("Parameters") or {},
        mappings=value.get("Mappings") or {},
        conditions=value.get("Conditions") or {},
        resources=value.get("Resources") or {},
        outputs=value.get("Outputs") or {},
        description=str(value.get("Description") or ""),
    )
    _check(template, known_types)
    return template


def _check(template: Template, known_types: frozenset[str]) -> None:
    if not template.resources:
        raise Refusal("Template format error: At least one Resources member must be defined.")
    _check_resources(template, known_types)
    _check_names(template)
    for name, one in template.outputs.items():
        if not isinstance(one, dict) or "Value" not in one:
            raise Refusal(f"Template format error: Output {name} is malformed.")
    template.order()


def _check_resources(template: Template, known_types: frozenset[str]) -> None:
    for name, body in template.resources.items():
        if not isinstance(body, dict) or not isinstance(body.get("Type"), str):
            raise Refusal(
                f"Template format error: [/Resources/{name}] Every Resources object must contain a Type "
                "member."
            )
        if not str(name).isalnum():
            raise Refusal(f"Template format error: Resource name {name} is non alphanumeric.")
    if strange := sorted({one["Type"] for one in template.resources.values()} - known_types):
        raise Refusal(f"Template format error: Unrecognized resource types: [{', '.join(strange)}]")


def _check_names(template: Template) -> None:
    known = {*template.resources, *template.parameters, *(f"AWS::{name}" for name in PSEUDO)}
    for section, inside in (("Resources", template.resources), ("Outputs", template.outputs)):
        if lost := sorted({one for one in named_in(inside) if one not in known}):
            raise Refusal(
                f"Template format error: Unresolved resource dependencies [{', '.join(lost)}] in the "
                f"{section} block of the template"
            )


def named_in(value: Any) -> Iterator[str]:
    """Every name that a part of a template refers to."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Ref":
                yield str(inner)
            elif key == "Fn::GetAtt":
                yield str(inner[0] if isinstance(inner, list) else str(inner).split(".")[0])
            elif key == "Fn::Sub":
                yield from _named_in_sub(inner)
            else:
                yield from named_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from named_in(inner)


def _named_in_sub(value: Any) -> Iterator[str]:
    text, own = (value[0], value[1]) if isinstance(value, list) and len(value) == 2 else (value, {})
    yield from named_in(own)
    for name in _IN_SUB.findall(str(text)):
        if name not in own:
            yield name if name.startswith("AWS::") else name.split(".")[0]


def _depends_on(body: Mapping[str, Any]) -> list[str]:
    said = body.get("DependsOn") or []
    return [said] if isinstance(said, str) else list(said)
