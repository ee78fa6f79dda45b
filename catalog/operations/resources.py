"""Validation of variables and optimistic locking, shared by all resources of the catalog."""

import re
from collections.abc import Mapping
from typing import Any

from django.db.models import F, Model

from guards.limits import VALUE_CHARACTERS, VARIABLES
from steps.expressions import describe_secret_problem
from web.http.problems import VersionConflict

# Names that expressions can reference: see steps/expressions.py.
VARIABLE_NAME_PATTERN = re.compile(r"[A-Za-z_$][\w$-]{0,127}", re.ASCII)


def list_variable_problems(variables: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the problems of the variables of a service or an environment, as {"path", "message"}."""
    if len(variables) > VARIABLES:
        return [{"path": "variables", "message": f"may be {VARIABLES} at most"}]
    problems = []
    for name, value in variables.items():
        if message := describe_variable_problem(name, value):
            problems.append({"path": f"variables.{name}", "message": message})
    return problems


def describe_variable_problem(name: str, value: Any) -> str:
    """Describe the problem with one variable; empty if it is valid."""
    if not VARIABLE_NAME_PATTERN.fullmatch(name):
        return "a name must have up to 128 letters, digits, _, $ and -, not starting with a digit or -"
    if not isinstance(value, str | int | float | bool):
        return "must be a text, a number, true or false"
    if isinstance(value, str) and len(value) > VALUE_CHARACTERS:
        return f"must have at most {VALUE_CHARACTERS}"
    return describe_secret_problem(value) if isinstance(value, str) else ""


def increment_version(thing: Model, expected: int | None) -> None:
    """Increment the `version` of a row; call it inside the transaction of the change.

    Raises `VersionConflict` if `expected` is given and outdated.
    """
    rows = type(thing)._default_manager.filter(pk=thing.pk)
    if expected is not None:
        rows = rows.filter(version=expected)
    if not rows.update(version=F("version") + 1):
        raise VersionConflict("Someone else changed this after you opened it. Nothing was saved.")
    thing.refresh_from_db(fields=["version"])
