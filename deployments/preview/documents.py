"""A preview as the API and the pages show it."""

from typing import Any

from aws.errors import AwsError
from aws.permissions import actions_for
from aws.preview import PlannedCall, PreviewStopped
from deployments.engine.masking import preview as masked
from deployments.preview.comparing import compared, live_definition
from deployments.preview.running import PreviewedStep
from deployments.preview.words import sentence_of


def step_document(step: PreviewedStep) -> dict[str, Any]:
    """One step: its writes with the values of environments hidden, what they change, what they need."""
    warnings = [*step.warnings, *(text for level, text in step.memory.lines if level == "warning")]
    return {
        "identifier": step.step.identifier,
        "name": step.step.name,
        "type": step.step.type,
        "stage": step.step.stage.identifier,
        "calls": [call_document(call) for call in step.writes],
        "diff": _diff(step, warnings),
        "permissions": actions_for((call.service, call.operation, call.params) for call in step.calls),
        "changes": [sentence for call in step.writes if (sentence := sentence_of(call))],
        "reads": sorted({f"{call.service}:{call.operation}" for call in step.calls if not call.is_write}),
        "log": [{"level": level, "text": text} for level, text in step.memory.lines],
        "warnings": warnings,
        "failure": _failure(step),
        "reached": step.is_reached,
    }


def call_document(call: PlannedCall) -> dict[str, Any]:
    """One write."""
    return {"service": call.service, "operation": call.operation, "params": masked(call.params)}


def _failure(step: PreviewedStep) -> dict[str, str] | None:
    found = step.failure
    if found is None:
        return None
    return {"code": found.code, "message": found.message, "action": found.iam_action}


def _diff(step: PreviewedStep, warnings: list[str]) -> str:
    """Unified; empty where no task definition is registered, or where nothing differs."""
    parts = []
    for call in step.writes:
        if call.operation != "RegisterTaskDefinition":
            continue
        try:
            live = live_definition(step, call.params)
        except (AwsError, PreviewStopped) as error:
            warnings.append(
                f"The task definition that runs now could not be read, so nothing is compared: {error}"
            )
            continue
        parts.append(_titled(live, call.params))
    return "\n".join(part for part in parts if part)


def _titled(live: dict[str, Any], params: dict[str, Any]) -> str:
    unified = compared(live, params).unified
    family = params["family"]
    old = f"{family}:{live['revision']}" if live else "/dev/null"
    return f"--- {old}\n+++ {family} (new)\n{unified}" if unified else ""
