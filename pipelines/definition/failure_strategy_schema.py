"""JSON Schema of the failure strategies of stages, groups and steps."""

from collections.abc import Sequence
from typing import Any

from guards.limits import RETRIES
from steps.failure_strategies import ERROR_TYPES, FINAL_REACTIONS, REACTIONS, REACTIONS_AFTER_RETRIES

DURATION_PATTERN = "^[1-9][0-9]{0,4}[smhd]$"
_DURATION = {"type": "string", "pattern": DURATION_PATTERN}


def _build_object(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


def _build_action(types: Sequence[str]) -> dict[str, Any]:
    special = {"Retry": _RETRY, "ManualIntervention": _MANUAL_INTERVENTION}
    return {
        **_build_object(["type"], type={"enum": list(types)}, spec={"type": "object"}),
        "allOf": [
            {
                "if": {"required": ["type"], "properties": {"type": {"const": name}}},
                "then": special[name],
            }
            for name in special
            if name in types
        ]
        + [
            {
                "if": {"required": ["type"], "properties": {"type": {"enum": list(FINAL_REACTIONS)}}},
                "then": {"properties": {"spec": {"additionalProperties": False, "properties": {}}}},
            }
        ],
    }


_MANUAL_INTERVENTION = {
    "required": ["spec"],
    "properties": {
        "spec": _build_object(
            ["timeout"],
            timeout=_DURATION,
            onTimeout=_build_object(
                ["action"],
                action=_build_object(["type"], type={"enum": list(FINAL_REACTIONS)}, spec=_build_object([])),
            ),
        )
    },
}
_RETRY: dict[str, Any] = {
    "required": ["spec"],
    "properties": {
        "spec": _build_object(
            ["retryCount", "retryIntervals"],
            retryCount={"type": "integer", "minimum": 1, "maximum": int(RETRIES)},
            retryIntervals={"type": "array", "minItems": 1, "maxItems": int(RETRIES), "items": _DURATION},
        )
    },
}
_RETRY["properties"]["spec"]["properties"]["onRetryFailure"] = _build_object(
    ["action"], action=_build_action(REACTIONS_AFTER_RETRIES)
)
FAILURE_STRATEGIES = {
    "type": "array",
    "maxItems": len(ERROR_TYPES),
    "items": _build_object(
        ["onFailure"],
        onFailure=_build_object(
            ["errors", "action"],
            errors={"type": "array", "minItems": 1, "items": {"enum": list(ERROR_TYPES)}},
            action=_build_action(REACTIONS),
        ),
    ),
}
