"""Decision about an event: checks and conditions, then the tag and the inputs of the run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipelines.models import Trigger
from pipelines.triggers.base import Check
from pipelines.triggers.registry import find_kind
from steps.conditions import BadConditionError, UnclearConditionError, parse_condition
from steps.expressions import BadExpressionError, format_value, get_path_value, resolve_expressions

SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True)
class Decision:
    """What an event leads to: a run if all checks hold and nothing is wrong with its values."""

    checks: tuple[Check, ...] = ()
    tag: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""
    """Why tag or inputs cannot be made of the event, "" if they can."""

    @property
    def failed_check(self) -> Check | None:
        return next((check for check in self.checks if not check.holds), None)

    @property
    def starts_run(self) -> bool:
        return self.failed_check is None and not self.refusal

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it is stored and shown."""
        checks = [{"text": check.text, "reason": check.reason} for check in self.checks]
        return {"checks": checks, "tag": self.tag, "inputs": dict(self.inputs)}


def build_values(trigger: Trigger, values: Mapping[str, Any], payload: Any) -> dict[str, Any]:
    """Return the values of expressions: everything is below `trigger`."""
    own = {"name": trigger.name, "identifier": trigger.identifier, "kind": trigger.kind}
    return {"trigger": {**own, **values, "payload": payload}}


def decide(trigger: Trigger, values: Mapping[str, Any], payload: Any) -> Decision:
    """Decide about an event with the current settings of its trigger."""
    kind = find_kind(trigger.kind)
    if kind is None:
        return Decision(refusal=f"This release of Slipway has no triggers of kind {trigger.kind}.")
    all_values = build_values(trigger, values, payload)
    checks = (
        *kind.list_checks(trigger.spec, values, payload),
        *(_check_condition(text, all_values) for text in trigger.conditions),
    )
    if any(not check.holds for check in checks):
        return Decision(checks)
    try:
        tag = resolve_expressions(trigger.tag, all_values, ("tag",))
        inputs = resolve_expressions(trigger.inputs, all_values, ("inputs",))
    except BadExpressionError as bad:
        return Decision(checks, refusal=f"{'.'.join(map(str, bad.where))}: {bad.message}")
    return Decision(checks, format_value(tag), inputs)


def _check_condition(text: str, values: Mapping[str, Any]) -> Check:
    try:
        condition = parse_condition(text)
        if condition.holds(values):
            return Check(text)
    except (BadConditionError, UnclearConditionError) as unclear:
        return Check(text, str(unclear))
    found = (f"<+{path}> is {_describe_value(path, values)}" for path in condition.paths)
    return Check(text, f"Does not hold: {', '.join(found)}." if condition.paths else "Does not hold.")


def _describe_value(path: str, values: Mapping[str, Any]) -> str:
    """Return the value of a path; a part of the condition that was not evaluated may have none."""
    try:
        return _shorten(get_path_value(path, values))
    except BadExpressionError:
        return "not in the event"


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
