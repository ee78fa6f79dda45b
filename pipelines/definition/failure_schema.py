"""The JSON Schema of `failureStrategies`, which a stage or a step may have."""

from collections.abc import Sequence
from typing import Any

from guards.limits import RETRIES
from steps.failure_strategies import AFTER_RETRIES, ENDS, ERRORS, REACTIONS

TIME_PATTERN = "^[1-9][0-9]{0,4}[smhd]$"
_TIME = {"type": "string", "pattern": TIME_PATTERN}


def _closed(required: Sequence[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }


def _action(types: Sequence[str]) -> dict[str, Any]:
    special = {"Retry": _RETRY, "ManualIntervention": _MANUAL}
    return {
        **_closed(["type"], type={"enum": list(types)}, spec={"type": "object"}),
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
                "if": {"required": ["type"], "properties": {"type": {"enum": list(ENDS)}}},
                "then": {"properties": {"spec": {"additionalProperties": False, "properties": {}}}},
            }
        ],
    }


_MANUAL = {
    "required": ["spec"],
    "properties": {
        "spec": _closed(
            ["timeout"],
            timeout=_TIME,
            onTimeout=_closed(
                ["action"], action=_closed(["type"], type={"enum": list(ENDS)}, spec=_closed([]))
            ),
        )
    },
}
_RETRY: dict[str, Any] = {
    "required": ["spec"],
    "properties": {
        "spec": _closed(
            ["retryCount", "retryIntervals"],
            retryCount={"type": "integer", "minimum": 1, "maximum": int(RETRIES)},
            retryIntervals={"type": "array", "minItems": 1, "maxItems": int(RETRIES), "items": _TIME},
        )
    },
}
_RETRY["properties"]["spec"]["properties"]["onRetryFailure"] = _closed(
    ["action"], action=_action(AFTER_RETRIES)
)
FAILURE_STRATEGIES = {
    "type": "array",
    "maxItems": len(ERRORS),
    "items": _closed(
        ["onFailure"],
        onFailure=_closed(
            ["errors", "action"],
            errors={"type": "array", "minItems": 1, "items": {"enum": list(ERRORS)}},
            action=_action(REACTIONS),
        ),
    ),
}
