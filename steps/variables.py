"""Variables of scripts and provisioners: types, validation, and the environment built of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steps.expressions import EXPRESSION_PATTERN, ValueLookup, parse_secret_reference, render_expressions

VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
SECRET_TYPE, TEXT_TYPE = "Secret", "String"


@dataclass
class ScriptEnvironment:
    """The variables that a script sees; `secrets` go from a variable to the reference of a secret."""

    resolve_expression: ValueLookup
    values: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str) -> None:
        """Add a variable with the value that a text comes to; raises what `resolve_expression` raises."""
        if reference := parse_secret_reference(value):
            self.secrets[name] = reference
        else:
            self.values[name] = render_expressions(value, self.resolve_expression)

    def taken_out_of(self, script: str) -> str:
        """The script with each expression as a variable: what it comes to never becomes a part of it."""
        names: dict[str, str] = {}

        def named(match: re.Match[str]) -> str:
            text = match[0]
            if text not in names:
                names[text] = f"SLIPWAY_VALUE_{len(names) + 1}"
                self.add(names[text], text)
            return f"${{{names[text]}}}"

        return EXPRESSION_PATTERN.sub(named, script)


def describe_variable_problem(listed: Sequence[Any], what: str, types: Sequence[str]) -> str:
    """What is wrong with a list of variables, each {name, type, value}; nothing if it is good."""
    for number, one in enumerate(listed, start=1):
        if not isinstance(one, Mapping) or not set(one) <= {"name", "type", "value"} or "name" not in one:
            return f"{what} {number} has name, type and value"
        if not VARIABLE_NAME_PATTERN.match(str(one["name"])):
            return f"{what} {number}: {one['name']!r} is not the name of a variable"
        if one.get("type", TEXT_TYPE) not in types:
            return f"{what} {one['name']}: type is one of {', '.join(types)}"
        if not isinstance(one.get("value", ""), str | int | float | bool):
            return f"{what} {one['name']}: value is a text, a number, true or false"
    names = [one["name"] for one in listed]
    twice = next((name for name in names if names.count(name) > 1), "")
    return f"{what} {twice} is there twice" if twice else ""
