"""Forms of the pipeline, stage, step or group that is open in the visual editor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.definition.schema import DURATION_PATTERN, IDENTIFIER_PATTERN
from pipelines.editor.cells import StepField
from pipelines.editor.failure_rows import FailureRows
from pipelines.editor.step_fields import (
    FieldSpec,
    build_entered_fields,
    build_field,
    build_fields,
    write_fields,
    write_spec,
)
from pipelines.editor.target_fields import EditorChoices, add_choices, build_target_fields, write_target
from pipelines.editor.tree_paths import (
    TreePath,
    format_path,
    get_body,
    get_execution_path,
    get_kind,
    get_node,
)
from pipelines.editor.variable_rows import VariableRows
from steps.kinds.registry import StepKind, get_step_kinds

_IDENTIFIER_ADVICE = "Use up to 128 letters, digits, _ and $, not starting with a digit."
# Keys of a `when` for the status of the preceding stages or steps.
_STATUS_KEYS = {"stage": "pipelineStatus", "step": "stageStatus", "stepGroup": "stageStatus"}
_STATUS_CHOICES = (
    ("", "Default: after success"),
    ("Success", "After success"),
    ("Failure", "After failure"),
    ("All", "Always"),
)
PIPELINE = "pipeline"
# Fields outside of the spec of a step.
_SELECTORS_FIELD = FieldSpec(
    ("delegateSelectors",),
    list[str],
    None,
    {"help": "Tags that the delegate must have, one per line."},
    before="",
)
_FAILURES_FIELD = FieldSpec(
    ("failureStrategies",),
    list[dict[str, Any]],
    None,
    {"help": "Action when a step fails. Without a matching strategy, the stage is rolled back."},
    FailureRows(),
    before="",
)
_VARIABLES_FIELD = FieldSpec(
    ("variables",),
    dict[str, Any],
    None,
    {"help": "Reference in steps: <+pipeline.variables.NAME>."},
    VariableRows(),
    before="",
)
_DURATION_ADVICE = "Enter a duration such as 90s, 30m, 2h or 1d, at most 9999h or 999d."


@dataclass(frozen=True)
class EditorForm:
    """The form of one stage, step or group."""

    path: str
    kind: str
    title: str
    about: str
    identifier: str
    fields: list[StepField]
    strategy: str = ""
    has_errors: bool = False
    problem: str = ""
    type: str = ""
    examples: Sequence[str] = field(default=())


def build_form(
    tree: Any,
    at: TreePath,
    nearby: EditorChoices,
    entered: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> EditorForm | None:
    """Build the form of the item at a path, None if it has none; invalid input is shown again."""
    kind, body = _get_item(tree, at)
    if kind not in ("pipeline", "stage", "step", "stepGroup"):
        return None
    step_kind = get_step_kinds().get(str(body.get("type"))) if kind == "step" else None
    errors = errors or {}
    fields = _build_common_fields(kind, body, nearby, entered, errors)
    if step_kind:
        spec = body.get("spec")
        own = (
            build_entered_fields(step_kind, spec, entered, errors)
            if errors and entered
            else build_fields(step_kind, spec)
        )
        fields += [add_choices(nearby, field) for field in own]
    invalid_input = entered if errors else None
    fields += [
        build_field(place, body.get(place.keys[0]), invalid_input, errors)
        for place in _list_common_fields(kind)
    ]
    return EditorForm(
        path=format_path(at),
        kind=kind,
        title=str(body.get("name") or body.get("identifier") or "").strip() or "No name",
        about=_get_description(step_kind) if step_kind else "",
        identifier="" if kind == PIPELINE else str(body.get("identifier") or ""),
        fields=fields,
        has_errors=bool(errors),
        problem=errors.get("", ""),
        type=str(body.get("type") or ""),
        strategy=get_strategy(tree, at) if kind == "stage" else "",
    )


def write_form(tree: Any, at: TreePath, entered: Mapping[str, str]) -> dict[str, str]:
    """Write the submitted values into the tree; return errors by field.

    After errors the tree is discarded.
    """
    kind, body = _get_item(tree, at)
    errors: dict[str, str] = {}
    is_named = kind in ("stage", PIPELINE)
    _write_text(body, "name", entered, errors, needed="Enter a name." if is_named else "")
    _write_text(body, "identifier", entered, errors, needed=_IDENTIFIER_ADVICE, pattern=IDENTIFIER_PATTERN)
    if kind == "step":
        _write_text(body, "timeout", entered, errors, pattern=DURATION_PATTERN, wrong=_DURATION_ADVICE)
        if of := get_step_kinds().get(str(body.get("type"))):
            errors |= write_spec(of, body, entered)
    if kind == "stage":
        write_target(body, entered)
    if kind in _STATUS_KEYS:
        _write_condition(kind, body, entered)
    return errors | write_fields(iter(_list_common_fields(kind)), body, entered)


def _get_item(tree: Any, at: TreePath) -> tuple[str, dict[str, Any]]:
    """Return the item at a path, and its body; a path of one part is the pipeline itself."""
    item = get_node(tree, at)
    if at == (PIPELINE,) and isinstance(item, dict):
        return PIPELINE, item
    return get_kind(item), get_body(item)


def _list_common_fields(kind: str) -> tuple[FieldSpec, ...]:
    if kind == PIPELINE:
        return (_SELECTORS_FIELD, _VARIABLES_FIELD)
    return (_SELECTORS_FIELD, _FAILURES_FIELD) if kind in _STATUS_KEYS else ()


def get_strategy(tree: Any, at: TreePath) -> str:
    """Return the strategy of a stage without written steps; empty for any other stage."""
    spec = get_body(get_node(tree, at)).get("spec")
    if not isinstance(spec, dict):
        return ""
    execution = spec.get(get_execution_path(())[-1])
    if isinstance(execution, dict) and "steps" in execution:
        return ""
    return str(spec.get("strategy") or "")


def _build_common_fields(
    kind: str,
    body: Mapping[str, Any],
    nearby: EditorChoices,
    entered: Mapping[str, str] | None,
    errors: Mapping[str, str],
) -> list[StepField]:
    def build_text_field(name: str, label: str, **more: Any) -> StepField:
        value = str(body.get(name) or "") if entered is None else entered.get(name, "")
        return StepField(name=name, label=label, kind="text", value=value, error=errors.get(name, ""), **more)

    fields = [
        build_text_field("name", "Name", is_required=kind in ("stage", PIPELINE)),
        build_text_field(
            "identifier", "Identifier", is_required=True, help="Used in expressions and in the API."
        ),
    ]
    if kind == "step":
        step_kind = get_step_kinds().get(str(body.get("type")))
        default_timeout = f"{step_kind.timeout_minutes}m" if step_kind else ""
        fields.append(
            build_text_field("timeout", "Timeout", default=default_timeout, help="Such as 90s, 30m or 2h.")
        )
    if kind == "stage":
        fields += build_target_fields(body, nearby)
    return [*fields, *(_build_condition_fields(kind, body, entered) if kind in _STATUS_KEYS else ())]


def _build_condition_fields(
    kind: str, body: Mapping[str, Any], entered: Mapping[str, str] | None
) -> list[StepField]:
    when = body.get("when")
    values = when if isinstance(when, dict) else {}
    status, condition = values.get(_STATUS_KEYS[kind], ""), values.get("condition", "")
    condition_text = str(condition).lower() if isinstance(condition, bool) else str(condition)
    entered = entered or {}
    return [
        StepField(
            name="when.status",
            label="Run",
            kind="choice",
            value=entered.get("when.status", str(status)),
            choices=_STATUS_CHOICES,
        ),
        StepField(
            name="when.condition",
            label="Condition",
            kind="text",
            value=entered.get("when.condition", condition_text),
            help='For example <+env.type> == "Production".',
        ),
    ]


def _write_condition(kind: str, body: dict[str, Any], entered: Mapping[str, str]) -> None:
    """Write the submitted condition; remove an empty `when`."""
    when = body.get("when")
    if "when.status" not in entered or (when is not None and not isinstance(when, dict)):
        return
    values = when or {}
    for key, name in ((_STATUS_KEYS[kind], "when.status"), ("condition", "when.condition")):
        text, old = entered.get(name, "").strip(), values.get(key, "")
        is_same = text == (str(old).lower() if isinstance(old, bool) else str(old))
        if not is_same and text:
            values[key] = text
        elif not text:
            values.pop(key, None)
    if values:
        body["when"] = values
    else:
        body.pop("when", None)


def _write_text(
    body: dict[str, Any],
    name: str,
    entered: Mapping[str, str],
    errors: dict[str, str],
    *,
    needed: str = "",
    pattern: str = "",
    wrong: str = _IDENTIFIER_ADVICE,
) -> None:
    text = entered.get(name)
    if text is None or (text := text.strip()) == str(body.get(name) or ""):
        return
    if not text and not needed:
        body.pop(name, None)
    elif not text:
        errors[name] = needed
    elif pattern and not re.search(pattern, text):
        errors[name] = wrong
    elif len(text) > 128:
        errors[name] = "Use at most 128 characters."
    else:
        body[name] = text


def _get_description(kind: StepKind) -> str:
    return (kind.plan_function.__doc__ or "").split("\n\n")[0].strip()
