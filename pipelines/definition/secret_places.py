"""Secrets that stand where they may not: one rule for what is saved, imported and run."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from catalog.manifests.document import values_of
from pipelines.completion.deferred_expressions import Fault
from pipelines.definition.nesting import Path
from steps.actions.terraform.configuration import CONFIGURATION
from steps.kinds.base import StepKind
from steps.variables import SECRET, expressions_in, is_secret, secret_in, secret_problem


def misplaced_secrets(
    kind: StepKind, spec: Mapping[str, Any], hidden: Collection[str] = ()
) -> Iterator[Fault]:
    """Yield each secret of a spec that stands where this kind of step takes none.

    `hidden` are the paths of inputs that are secrets. They may stand wherever the value is only filled in
    while the step runs, and in manifests.
    """
    for where, text in values_of(spec):
        field = str(where[0])
        # The files of a program have expressions of their own.
        if not isinstance(text, str) or kind.manifests.get(field) == CONFIGURATION:
            continue
        shown = () if field in kind.scripts or field in kind.manifests else hidden
        for named in expressions_in(text):
            message = _problem(kind, where, text, named) if is_secret(named) else hidden_problem(named, shown)
            if message:
                yield Fault(where, message)


def hidden_inputs(variables: Mapping[str, Any]) -> set[str]:
    """Return the paths of the variables of a pipeline, as they are written, that are secrets."""
    said = {name: one for name, one in variables.items() if isinstance(one, Mapping)}
    return {f"pipeline.variables.{name}" for name, one in said.items() if one.get("type") == SECRET}


def hidden_problem(path: str, hidden: Collection[str]) -> str:
    """What is said of an input that is a secret, where its value would be shown; empty for any other path."""
    if path not in hidden:
        return ""
    return (
        f"<+{path}> is a secret, and people read what stands here. It may stand in the script and the "
        "variables of ShellScript, in url, headers and requestBody of Http, and in manifests."
    )


def _problem(kind: StepKind, where: Path, text: str, named: str) -> str:
    place = ".".join("*" if isinstance(part, int) else part for part in where)
    if place not in kind.secrets:
        return secret_problem(text)
    if secret_in(f"<+{named}>") == "":
        return f'<+{named}> is no secret: write <+secrets.getValue("identifier")>, with double quotes.'
    if place.endswith(".value") and not secret_in(text):
        return f"<+{named}> has to be the whole value: take away what stands around it."
    return ""
