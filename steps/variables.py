"""Variables of scripts and provisioners: types, validation, and the resulting environment."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.secret_expressions import parse_secret_reference, replace_by_variables
from steps.expressions import ValueLookup, render_expressions

VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
SECRET_TYPE, TEXT_TYPE = "Secret", "String"


@dataclass
class ScriptEnvironment:
    """Environment of a script; `secrets` map a variable to the reference of a secret."""

    resolve_expression: ValueLookup
    values: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str) -> None:
        """Add a variable with its resolved value; raises the errors of `resolve_expression`."""
        if reference := parse_secret_reference(value):
            self.secrets[name] = reference
        else:
            self.values[name] = render_expressions(value, self.resolve_expression)

    def replace_expressions(self, script: str) -> str:
        """Return the script with each expression replaced by a variable, so that values are never code."""
        replaced, expressions = replace_by_variables(script)
        for name, text in expressions.items():
            self.add(name, text)
        return replaced


def describe_variable_problem(variables: Sequence[Any], noun: str, types: Sequence[str]) -> str:
    """Return the problem of a list of variables, each {name, type, value}; empty if it is valid."""
    for number, variable in enumerate(variables, start=1):
        if (
            not isinstance(variable, Mapping)
            or not set(variable) <= {"name", "type", "value"}
            or "name" not in variable
        ):
            return f"{noun} {number} has name, type and value"
        if not VARIABLE_NAME_PATTERN.match(str(variable["name"])):
            return f"{noun} {number}: {variable['name']!r} is not the name of a variable"
        if variable.get("type", TEXT_TYPE) not in types:
            return f"{noun} {variable['name']}: type is one of {', '.join(types)}"
        if not isinstance(variable.get("value", ""), str | int | float | bool):
            return f"{noun} {variable['name']}: value is a text, a number, true or false"
    names = [variable["name"] for variable in variables]
    duplicate = next((name for name in names if names.count(name) > 1), "")
    return f"{noun} {duplicate} is there twice" if duplicate else ""
