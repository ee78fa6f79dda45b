"""Expressions in texts, and references to secrets such as `<+secrets.getValue("account.token")>`."""

import re
from collections.abc import Callable, Iterator
from typing import Final

EXPRESSION_PATTERN: Final = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_SECRET_PATTERN: Final = re.compile(r"\s*secrets\.getValue\(\s*\"([\w.-]{1,300})\"\s*\)\s*")


def find_expressions(text: str) -> Iterator[str]:
    """Yield the content between <+ and > of each expression in a text."""
    return (match[1].strip() for match in EXPRESSION_PATTERN.finditer(text))


def is_secret_expression(expression: str) -> bool:
    """Return whether an expression refers to a secret, even in a wrong form."""
    return expression.startswith("secrets.")


def parse_secret_reference(text: str) -> str:
    """Return the reference in a text such as `<+secrets.getValue("account.token")>`, else empty."""
    expression = EXPRESSION_PATTERN.fullmatch(text)
    reference = _SECRET_PATTERN.fullmatch(expression[1]) if expression else None
    return reference[1] if reference else ""


def find_secret_references(*texts: str) -> list[str]:
    """Return the references of all secrets in the texts."""
    expressions = (expression for text in texts for expression in find_expressions(text))
    return [match[1] for expression in expressions if (match := _SECRET_PATTERN.fullmatch(expression))]


def replace_by_variables(
    script: str, is_replaced: Callable[[str], object] = lambda text: True
) -> tuple[str, dict[str, str]]:
    """Return a script with a variable in place of each expression, and the expressions by variable.

    So values are never code. `is_replaced` takes an expression with its <+ and >.
    """
    names: dict[str, str] = {}

    def get_variable(match: re.Match[str]) -> str:
        text = match[0]
        if not is_replaced(text):
            return text
        name = names.setdefault(text, f"SLIPWAY_VALUE_{len(names) + 1}")
        return f"${{{name}}}"

    replaced = EXPRESSION_PATTERN.sub(get_variable, script)
    return replaced, {name: text for text, name in names.items()}
