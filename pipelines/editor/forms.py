"""The form of what is open in the visual editor: its fields, and writing what was entered into the tree."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.definition.failure_schema import TIME_PATTERN
from pipelines.definition.schema import IDENTIFIER_PATTERN
from pipelines.editor.controls import StepField
from pipelines.editor.failures import FailureRows
from pipelines.editor.fields import Place, entered_fields, field_of, fields_of, write_places, write_spec
from pipelines.editor.places import Path, body_of, execution_path, found, kind_of, path_text
from pipelines.editor.targets import Nearby, chosen_from, target_fields, write_target
from pipelines.editor.variable_rows import VariableRows
from steps.kinds.base import StepKind, known_steps

_NO_IDENTIFIER = "Use letters, digits, _ and $, and no digit first; 128 at most."
# What a `when` calls the state of what went before.
_AFTER = {"stage": "pipelineStatus", "step": "stageStatus", "stepGroup": "stageStatus"}
_WHENS = (
    ("", "Default: after what succeeded"),
    ("Success", "After what succeeded"),
    ("Failure", "After a failure"),
    ("All", "Always"),
)
PIPELINE = "pipeline"
# What they say of themselves beside what they do.
_SELECTORS = Place(
    ("delegateSelectors",),
    list[str],
    None,
    {"help": "Tags that a delegate must have, one in each line."},
    before="",
)
_FAILURES = Place(
    ("failureStrategies",),
    list[dict[str, Any]],
    None,
    {"help": "What is done when a step fails. Without one for the error, the stage is rolled back."},
    FailureRows(),
    before="",
)
_VARIABLES = Place(
    ("variables",),
    dict[str, Any],
    None,
    {"help": "Steps name them as <+pipeline.variables.NAME>."},
    VariableRows(),
    before="",
)
_NO_TIME = "Write a time such as 90s, 30m, 2h or 1d."


@dataclass(frozen=True)
class OpenForm:
    """The form of one stage, step or group."""

    at: str
    kind: str
    title: str
    about: str
    identifier: str
    fields: list[StepField]
    strategy: str = ""
    is_wrong: bool = False
    problem: str = ""
    type: str = ""
    examples: Sequence[str] = field(default=())


def form_at(
    tree: Any,
    at: Path,
    nearby: Nearby,
    entered: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
) -> OpenForm | None:
    """The form of what stands at a path, None for what has none; what was entered is kept if it was wrong."""
    kind, body = _meant(tree, at)
    if kind not in ("pipeline", "stage", "step", "stepGroup"):
        return None
    of = known_steps().get(str(body.get("type"))) if kind == "step" else None
    errors = errors or {}
    fields = _common(kind, body, nearby, entered, errors)
    if of:
        spec = body.get("spec")
        own = entered_fields(of, spec, entered, errors) if errors and entered else fields_of(of, spec)
        fields += [chosen_from(nearby, one) for one in own]
    again = entered if errors else None
    fields += [field_of(one, body.get(one.keys[0]), again, errors) for one in _common_places(kind)]
    return OpenForm(
        at=path_text(at),
        kind=kind,
        title=str(body.get("name") or body.get("identifier") or "").strip() or "No name",
        about=_about(of) if of else "",
        identifier="" if kind == PIPELINE else str(body.get("identifier") or ""),
        fields=fields,
        is_wrong=bool(errors),
        problem=errors.get("", ""),
        type=str(body.get("type") or ""),
        strategy=strategy_of(tree, at) if kind == "stage" else "",
    )


def write_form(tree: Any, at: Path, entered: Mapping[str, str]) -> dict[str, str]:
    """Put what was entered into the tree; returns what is wrong by field, and then nobody uses the tree."""
    kind, body = _meant(tree, at)
    errors: dict[str, str] = {}
    is_named = kind in ("stage", PIPELINE)
    _write_word(body, "name", entered, errors, needed="Give it a name." if is_named else "")
    _write_word(body, "identifier", entered, errors, needed=_NO_IDENTIFIER, pattern=IDENTIFIER_PATTERN)
    if kind == "step":
        _write_word(body, "timeout", entered, errors, pattern=TIME_PATTERN, wrong=_NO_TIME)
        if of := known_steps().get(str(body.get("type"))):
            errors |= write_spec(of, body, entered)
    if kind == "stage":
        write_target(body, entered)
    if kind in _AFTER:
        _write_when(kind, body, entered)
    return errors | write_places(iter(_common_places(kind)), body, entered)


def _meant(tree: Any, at: Path) -> tuple[str, dict[str, Any]]:
    """What stands at a path, and what is written of it; a path of one part is the pipeline's own."""
    item = found(tree, at)
    if at == (PIPELINE,) and isinstance(item, dict):
        return PIPELINE, item
    return kind_of(item), body_of(item)


def _common_places(kind: str) -> tuple[Place, ...]:
    if kind == PIPELINE:
        return (_SELECTORS, _VARIABLES)
    return (_SELECTORS, _FAILURES) if kind in _AFTER else ()


def strategy_of(tree: Any, at: Path) -> str:
    """The strategy that a stage names and does not write out; nothing for any other stage."""
    spec = body_of(found(tree, at)).get("spec")
    if not isinstance(spec, dict) or "steps" in (spec.get(execution_path(())[-1]) or {}):
        return ""
    return str(spec.get("strategy") or "")


def _common(
    kind: str,
    body: Mapping[str, Any],
    nearby: Nearby,
    entered: Mapping[str, str] | None,
    errors: Mapping[str, str],
) -> list[StepField]:
    def one(name: str, label: str, **more: Any) -> StepField:
        value = str(body.get(name) or "") if entered is None else entered.get(name, "")
        return StepField(name=name, label=label, kind="text", value=value, error=errors.get(name, ""), **more)

    fields = [
        one("name", "Name", is_required=kind in ("stage", PIPELINE)),
        one("identifier", "Identifier", is_required=True, help="What expressions and the API call it."),
    ]
    if kind == "step":
        of = known_steps().get(str(body.get("type")))
        usual = f"{of.timeout_minutes}m" if of else ""
        fields.append(one("timeout", "Time-out", default=usual, help="Such as 90s, 30m or 2h."))
    if kind == "stage":
        fields += target_fields(body, nearby)
    return [*fields, *(_when_fields(kind, body, entered) if kind in _AFTER else ())]


def _when_fields(kind: str, body: Mapping[str, Any], entered: Mapping[str, str] | None) -> list[StepField]:
    when = body.get("when")
    said = when if isinstance(when, dict) else {}
    status, condition = said.get(_AFTER[kind], ""), said.get("condition", "")
    shown = str(condition).lower() if isinstance(condition, bool) else str(condition)
    entered = entered or {}
    return [
        StepField(
            name="when.status",
            label="Runs",
            kind="choice",
            value=entered.get("when.status", str(status)),
            choices=_WHENS,
        ),
        StepField(
            name="when.condition",
            label="And only if",
            kind="text",
            value=entered.get("when.condition", shown),
            help='A condition, such as <+env.type> == "Production".',
        ),
    ]


def _write_when(kind: str, body: dict[str, Any], entered: Mapping[str, str]) -> None:
    """Write what was chosen over what is there; a `when` that says nothing goes."""
    when = body.get("when")
    if "when.status" not in entered or (when is not None and not isinstance(when, dict)):
        return
    said = when or {}
    for key, name in ((_AFTER[kind], "when.status"), ("condition", "when.condition")):
        given, old = entered.get(name, "").strip(), said.get(key, "")
        is_same = given == (str(old).lower() if isinstance(old, bool) else str(old))
        if not is_same and given:
            said[key] = given
        elif not given:
            said.pop(key, None)
    if said:
        body["when"] = said
    else:
        body.pop("when", None)


def _write_word(
    body: dict[str, Any],
    name: str,
    entered: Mapping[str, str],
    errors: dict[str, str],
    *,
    needed: str = "",
    pattern: str = "",
    wrong: str = _NO_IDENTIFIER,
) -> None:
    given = entered.get(name)
    if given is None or (given := given.strip()) == str(body.get(name) or ""):
        return
    if not given and not needed:
        body.pop(name, None)
    elif not given:
        errors[name] = needed
    elif pattern and not re.search(pattern, given):
        errors[name] = wrong
    elif len(given) > 128:
        errors[name] = "128 characters at most."
    else:
        body[name] = given


def _about(kind: StepKind) -> str:
    return (kind.plan_of.__doc__ or "").split("\n\n")[0].strip()
