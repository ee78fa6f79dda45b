"""What scripts and requests of a step name: expressions, secrets, variables, in the forms people write."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_EXPRESSION = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_SECRET = re.compile(r"\s*secrets\.getValue\(\s*\"([\w.-]{1,300})\"\s*\)\s*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
SECRET, TEXT = "Secret", "String"
_ADVICE = (
    "It may stand in the script of ShellScript, and be the value of a step's variable, of a header of Http"
    " and of a parameter of CreateStack."
)

ValueOf = Callable[[str], Any]


@dataclass
class Environment:
    """The variables that a script sees; `secrets` go from a variable to the reference of a secret."""

    value_of: ValueOf
    values: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: str) -> None:
        """Add a variable with the value that a text comes to; raises what `value_of` raises."""
        if reference := secret_in(value):
            self.secrets[name] = reference
        else:
            self.values[name] = filled_in(value, self.value_of)

    def taken_out_of(self, script: str) -> str:
        """The script with each expression as a variable: what it comes to never becomes a part of it."""
        names: dict[str, str] = {}

        def named(match: re.Match[str]) -> str:
            text = match[0]
            if text not in names:
                names[text] = f"SLIPWAY_VALUE_{len(names) + 1}"
                self.add(names[text], text)
            return f"${{{names[text]}}}"

        return _EXPRESSION.sub(named, script)


def secret_in(text: str) -> str:
    """The reference of the secret that a text is, as `<+secrets.getValue("account.token")>`; or nothing."""
    whole = _EXPRESSION.fullmatch(text)
    named = _SECRET.fullmatch(whole[1]) if whole else None
    return named[1] if named else ""


def expressions_in(text: str) -> Iterator[str]:
    """Yield what stands between <+ and > of each expression in a text."""
    return (match[1].strip() for match in _EXPRESSION.finditer(text))


def is_secret(expression: str) -> bool:
    """Whether an expression means a secret, also where it is not written as it should be."""
    return expression.startswith("secrets.")


def secret_problem(text: str, advice: str = _ADVICE) -> str:
    """What is said of a secret in a text that may hold none; empty where there is none in it."""
    named = next(filter(is_secret, expressions_in(text)), "")
    return f"<+{named}> cannot stand here: people could read the secret. {advice}" if named else ""


def filled_in(text: str, value_of: ValueOf) -> str:
    """A text with its expressions as text."""
    return _EXPRESSION.sub(lambda match: as_text(value_of(match[1].strip())), text)


def as_text(value: Any) -> str:
    """A value as programs write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def secrets_named_in(*texts: str) -> list[str]:
    """The references of all secrets that texts name."""
    inside = (one for text in texts for one in expressions_in(text))
    return [found[1] for one in inside if (found := _SECRET.fullmatch(one))]


def variable_problem(listed: Sequence[Any], what: str, types: Sequence[str]) -> str:
    """What is wrong with a list of variables, each {name, type, value}; nothing if it is good."""
    for number, one in enumerate(listed, start=1):
        if not isinstance(one, Mapping) or not set(one) <= {"name", "type", "value"} or "name" not in one:
            return f"{what} {number} has name, type and value"
        if not VARIABLE.match(str(one["name"])):
            return f"{what} {number}: {one['name']!r} is not the name of a variable"
        if one.get("type", TEXT) not in types:
            return f"{what} {one['name']}: type is one of {', '.join(types)}"
        if not isinstance(one.get("value", ""), str | int | float | bool):
            return f"{what} {one['name']}: value is a text, a number, true or false"
    names = [one["name"] for one in listed]
    twice = next((name for name in names if names.count(name) > 1), "")
    return f"{what} {twice} is there twice" if twice else ""
