"""Checks for secrets in fields that may not hold them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from catalog.manifests.documents import iterate_scalars
from connectors.secret_expressions import find_expressions, is_secret_expression, parse_secret_reference
from pipelines.definition.deferred_expressions import ExpressionProblem
from pipelines.definition.nesting import DocumentPath
from steps.actions.terraform import TERRAFORM_CONFIGURATION
from steps.expressions import describe_secret_problem
from steps.kinds.registry import StepKind
from steps.variables import SECRET_TYPE


def list_misplaced_secrets(
    kind: StepKind, spec: Mapping[str, Any], hidden: Collection[str] = ()
) -> Iterator[ExpressionProblem]:
    """Yield each secret in a spec at a location where this kind of step allows none.

    `hidden` are the paths of secret inputs. They are allowed in manifests, and where the value is resolved
    only while the step runs.
    """
    for where, text in iterate_scalars(spec):
        field = str(where[0])
        # The files of a program have expressions of their own.
        if not isinstance(text, str) or kind.manifests.get(field) == TERRAFORM_CONFIGURATION:
            continue
        forbidden_paths = () if field in kind.scripts or field in kind.manifests else hidden
        for named in find_expressions(text):
            message = (
                _describe_secret_problem(kind, where, text, named)
                if is_secret_expression(named)
                else describe_secret_input_problem(named, forbidden_paths)
            )
            if message:
                yield ExpressionProblem(where, message)


def list_secret_inputs(variables: Mapping[str, Any]) -> set[str]:
    """Return the paths of the secret variables of a pipeline."""
    definitions = {name: variable for name, variable in variables.items() if isinstance(variable, Mapping)}
    return {
        f"pipeline.variables.{name}"
        for name, variable in definitions.items()
        if variable.get("type") == SECRET_TYPE
    }


def describe_secret_input_problem(path: str, hidden: Collection[str]) -> str:
    """Return the message for a secret input in a visible field; empty for any other path."""
    if path not in hidden:
        return ""
    return (
        f"<+{path}> is a secret and this field is not redacted. Use secrets only in the script and "
        "variables of ShellScript, in url, headers and requestBody of Http, and in manifests."
    )


def _describe_secret_problem(kind: StepKind, where: DocumentPath, text: str, named: str) -> str:
    place = ".".join("*" if isinstance(part, int) else part for part in where)
    if place not in kind.secrets:
        return describe_secret_problem(text)
    if parse_secret_reference(f"<+{named}>") == "":
        return (
            f'<+{named}> is not a secret reference: use <+secrets.getValue("identifier")> with double quotes.'
        )
    if place.endswith(".value") and not parse_secret_reference(text):
        return f"<+{named}> must be the whole value: remove the text around it."
    return ""
