"""Trials: what an event would lead to, without starting anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.models import Trigger
from pipelines.triggers.decisions import Decision, decide
from pipelines.triggers.firings import EXPECTED_ERRORS, build_run, describe_refusal
from pipelines.triggers.operations import require_kind
from pipelines.triggers.runs import get_run_starter


@dataclass(frozen=True)
class Trial:
    """Result of a trial; `refusal` is why the run would be refused, "" if it would start."""

    summary: str
    values: Mapping[str, Any]
    decision: Decision
    refusal: str = ""

    @property
    def starts_run(self) -> bool:
        return self.decision.starts_run and not self.refusal


def try_payload(trigger: Trigger, payload: Any) -> list[Trial]:
    """Return what each event of a payload would lead to.

    Raises `BadInput` for a payload that the kind cannot read.
    """
    events = require_kind(trigger.kind).read_events(trigger.spec, payload, {})
    return [try_event(trigger, event.summary, event.values, event.payload) for event in events]


def try_event(trigger: Trigger, summary: str, values: Mapping[str, Any], payload: Any) -> Trial:
    """Return what an event would lead to now."""
    decision = decide(trigger, values, payload)
    refusal = decision.refusal
    if decision.starts_run:
        try:
            get_run_starter().check(build_run(trigger, decision, summary, values))
        except EXPECTED_ERRORS as refused:
            refusal = describe_refusal(refused)
    return Trial(summary, values, decision, refusal)
