"""Reference pages of step kinds: one for each, and a list of all."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, is_dataclass
from itertools import pairwise
from typing import Any

import yaml

from ops.documentation.markdown import Page, block, code, plain, table
from steps.kinds.outputs import list_outputs
from steps.kinds.registry import BadStepError, StepKind, get_step_kinds, resolve_plain_type

FOLDER = "reference/steps"
_TYPES = {bool: "true or false", int: "number", str: "text", list: "list", dict: "mapping"}
_UNUSED = "For compatibility only; leave it out."
_COLUMN_TYPES = {
    "text": "text",
    "lines": "text of several lines",
    "number": "number",
    "choice": "one of the choices",
    "flag": "true or false",
    "names": "list of texts",
    "pairs": "mapping",
    "checks": "list of choices",
}


def generate() -> Iterator[Page]:
    """Yield the list of step kinds and a page for each."""
    kinds = sorted(get_step_kinds().values(), key=lambda kind: kind.title)
    rows = [(_build_link(kind.type), kind.title, _describe_purpose(kind)) for kind in kinds]
    about = (
        "A stage consists of steps. A step has an identifier that is unique in its stage, a type and, for "
        "most types, settings under `spec`. Every step may also have `name`, `timeout`, `when`, "
        "`failureStrategies` and `delegateSelectors`."
    )
    yield Page(f"{FOLDER}/index.md", "Steps", (about, table(("Type", "Name", "What it does"), rows)))
    yield from map(_build_page, kinds)


def _describe_purpose(kind: StepKind) -> str:
    return plain((kind.plan_function.__doc__ or "").strip().split("\n\n")[0])


def _build_page(kind: StepKind) -> Page:
    parts = [
        _describe_purpose(kind),
        _build_facts(kind),
        *_build_fields(kind),
        *_build_outputs(kind),
        *_build_plan(kind),
        *_build_example(kind),
    ]
    return Page(f"{FOLDER}/{kind.type}.md", kind.title, tuple(parts))


def _build_facts(kind: StepKind) -> str:
    rows = [
        ("Type", code(kind.type)),
        ("Place in a stage", " or ".join(code(section) for section in kind.sections)),
        ("Default timeout", f"{kind.timeout_minutes} minutes"),
    ]
    if kind.undone_by:
        rows.append(("Undone by", _build_link(kind.undone_by)))
    if kind.undoes:
        rows.append(("Undoes", ", ".join(map(_build_link, kind.undoes))))
    if kind.provisions:
        rows.append(("Creates infrastructure", f"yes; its outputs are also {code('<+provisioner.NAME>')}"))
    if kind.runs_on_delegates:
        rows.append(("Runs on", "a delegate, always"))
    if kind.secrets:
        rows.append(("Takes secrets in", ", ".join(map(code, kind.secrets))))
    return table(("Property", "Value"), rows)


def _build_link(type_: str) -> str:
    return f"[{code(type_)}]({type_}.md)" if type_ in get_step_kinds() else code(type_)


def _build_fields(kind: StepKind) -> Iterator[str]:
    rows = list(_build_field_rows(kind.spec, kind.manifests))
    if not rows:
        yield "This step has no settings of its own."
        return
    yield "## Settings"
    yield table(("Field of `spec`", "Type", "Default", "Description"), rows)
    for name, columns in _build_lists(kind.spec):
        yield f"### Entries of `{name}`"
        yield table(("Key", "Type", "Default", "Description"), map(_build_column_row, columns))


def _build_field_rows(spec: Any, manifests: Mapping[str, str], before: str = "") -> Iterator[tuple[str, ...]]:
    documented = _list_docstrings(spec)
    for name, field in spec.__dataclass_fields__.items():
        if not field.init:
            continue
        plain_type = resolve_plain_type(field.type)
        if is_dataclass(plain_type):
            yield from _build_field_rows(plain_type, {}, f"{before}{name}.")
            continue
        type_ = (
            "manifest: a store and its place" if name in manifests else _TYPES.get(plain_type, "any value")
        )
        description = _describe(field.metadata, documented.get(name, ""))
        yield (code(f"{before}{name}"), type_, _format_default(field), description)


def _format_default(field: Any) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value in ("", None, [], {}, ()):
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else str(value))


def _list_docstrings(spec: Any) -> dict[str, str]:
    """Return the docstrings below the fields of a dataclass, by field."""
    body = ast.parse(textwrap.dedent(inspect.getsource(spec))).body[0]
    statements = body.body if isinstance(body, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(statements)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _describe(metadata: Mapping[str, Any], documented: str) -> str:
    """Return the help that forms show, else the docstring of the field, and its choices."""
    choices = ", ".join(map(code, metadata.get("choices", ())))
    help_ = metadata.get("help") or documented or (_UNUSED if metadata.get("is_rare") else "")
    return " ".join(filter(None, (plain(help_), choices and f"One of {choices}.")))


def _build_lists(spec: Any) -> Iterator[tuple[str, Any]]:
    for name, field in spec.__dataclass_fields__.items():
        if columns := field.metadata.get("columns"):
            yield name, columns


def _build_column_row(column: Any) -> tuple[str, ...]:
    choices = ", ".join(code(choice) for choice in column.choices if choice)
    default = "required" if column.is_needed else code(column.default) if column.default else "none"
    description = " ".join(filter(None, (plain(column.help), choices and f"One of {choices}.")))
    return (code(column.name), _COLUMN_TYPES.get(column.kind, column.kind), default, description)


def _build_outputs(kind: StepKind) -> Iterator[str]:
    if outputs := list_outputs(kind.type, {}):
        yield "## Outputs"
        yield f"Later steps read them as {code('<+steps.IDENTIFIER.output.NAME>')}."
        yield table(("Name", "Description"), [(code(name), plain(text)) for name, text in outputs.items()])
    if within := kind.own_expressions:
        yield "## Expressions inside the step"
        rows = [(code(f"<+{name}>"), plain(text)) for name, text in within.items()]
        yield table(("Expression", "Description"), rows)


def _build_plan(kind: StepKind) -> Iterator[str]:
    try:
        units = kind.build_units(kind.starter)
    except BadStepError:
        return
    rows = [(plain(unit.title), plain(action.title)) for unit in units for action in unit.actions]
    if rows:
        yield "## Actions"
        yield "A step that has just been added runs these actions, in this order:"
        yield table(("Group in the log", "Action"), rows)


def _build_example(kind: StepKind) -> Iterator[str]:
    spec = dict(kind.starter)
    if any(name not in spec for name in kind.required_fields):
        return
    step: dict[str, Any] = {"identifier": "my_step", "type": kind.type, **({"spec": spec} if spec else {})}
    yield "## Example"
    yield block(yaml.safe_dump([{"step": step}], sort_keys=False, allow_unicode=True, width=100), "yaml")
