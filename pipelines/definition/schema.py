"""JSON Schema of the YAML of a pipeline."""

from collections.abc import Sequence
from typing import Any

from connectors.specs.base import TAG_PATTERN
from guards.limits import PARALLEL_BRANCHES, RETRIES, SELECTORS, TAG_CHARACTERS
from steps.failure_strategies import ERROR_TYPES, FINAL_REACTIONS, REACTIONS, REACTIONS_AFTER_RETRIES

# `$` alone accepts a line end after it, and not every reader of the schema knows `\Z`.
_END = "(?!\\n)$"
# Up to 999 days: the seconds of a step have to fit into their column.
DURATION_PATTERN = f"^([1-9][0-9]{{0,4}}[sm]|[1-9][0-9]{{0,3}}h|[1-9][0-9]{{0,2}}d){_END}"
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

IDENTIFIER_PATTERN = f"^[A-Za-z_][A-Za-z0-9_$]{{0,127}}{_END}"
_IDENTIFIER = {"type": "string", "pattern": IDENTIFIER_PATTERN}
_NAME = {"type": "string", "minLength": 1, "maxLength": 128}
# The names that the path of an expression can have.
VARIABLE_NAME_PATTERN = f"^[A-Za-z_$][\\w$-]{{0,127}}{_END}"
_VARIABLES = {
    "type": "object",
    "propertyNames": {"pattern": VARIABLE_NAME_PATTERN},
    "additionalProperties": {"type": ["string", "number", "integer", "boolean", "object"]},
}
# Stored YAML that ran under an earlier pattern can be run again.
EARLIER_PATTERNS = {
    DURATION_PATTERN: f"^[1-9][0-9]{{0,4}}[smhd]{_END}",
    VARIABLE_NAME_PATTERN: "",
    TAG_PATTERN: r"^[^\s,<>\"']+$",
}
_SELECTORS = {
    "type": "array",
    "maxItems": int(SELECTORS),
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1, "maxLength": int(TAG_CHARACTERS), "pattern": TAG_PATTERN},
}
_CONDITION = {"type": ["string", "boolean"]}
_STATUS = {"enum": ["Success", "Failure", "All"]}


def _build_condition(status: str) -> dict[str, Any]:
    """Build the schema of `when`: a status and a condition."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {status: _STATUS, "condition": _CONDITION},
    }


def _build_entry(**kinds: dict[str, Any]) -> dict[str, Any]:
    """Build the schema of an entry in a list of steps: exactly one of these."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": kinds,
    }


_STEP: dict[str, Any] = {
    "type": "object",
    "required": ["type", "identifier"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string"},
        "identifier": _IDENTIFIER,
        "name": _NAME,
        "when": _build_condition("stageStatus"),
        "delegateSelectors": _SELECTORS,
        "timeout": {"type": "string", "pattern": DURATION_PATTERN},
        "failureStrategies": FAILURE_STRATEGIES,
        "spec": {"type": "object"},
    },
}
# Lists of steps hold groups and parallels, which hold such lists.
_STEPS_REFERENCE = {"$ref": "#/$defs/steps"}
_GROUP = {
    "type": "object",
    "required": ["identifier", "steps"],
    "additionalProperties": False,
    "properties": {
        "identifier": _IDENTIFIER,
        "name": _NAME,
        "when": _build_condition("stageStatus"),
        "delegateSelectors": _SELECTORS,
        "failureStrategies": FAILURE_STRATEGIES,
        "steps": {"minItems": 1, **_STEPS_REFERENCE},
    },
}
_PARALLEL = {"minItems": 1, "maxItems": int(PARALLEL_BRANCHES), **_STEPS_REFERENCE}
STEPS: dict[str, Any] = {
    "type": "array",
    "items": _build_entry(step=_STEP, parallel=_PARALLEL, stepGroup=_GROUP),
    "maxItems": 100,
}
_INFRASTRUCTURE = {
    "type": "object",
    "required": ["identifier"],
    "additionalProperties": False,
    "properties": {"identifier": _IDENTIFIER},
}
_STAGE_SPEC = {
    "type": "object",
    "required": ["deploymentType", "service", "environment"],
    "additionalProperties": False,
    "properties": {
        "deploymentType": {"enum": ["ECS"]},
        "service": {
            "type": "object",
            "required": ["serviceRef"],
            "additionalProperties": False,
            "properties": {"serviceRef": _IDENTIFIER},
        },
        "environment": {
            "type": "object",
            "required": ["environmentRef", "infrastructureDefinitions"],
            "additionalProperties": False,
            "properties": {
                "environmentRef": _IDENTIFIER,
                "provisioner": {
                    "type": "object",
                    "required": ["steps"],
                    "additionalProperties": False,
                    "properties": {
                        "steps": {"minItems": 1, **_STEPS_REFERENCE},
                        "rollbackSteps": _STEPS_REFERENCE,
                    },
                },
                "infrastructureDefinitions": {
                    "type": "array",
                    "items": _INFRASTRUCTURE,
                    "minItems": 1,
                    "maxItems": 1,
                },
            },
        },
        "strategy": {"type": "string"},
        "execution": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"steps": _STEPS_REFERENCE, "rollbackSteps": _STEPS_REFERENCE},
        },
    },
}
PIPELINE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Slipway pipeline",
    "$defs": {"steps": STEPS},
    "type": "object",
    "required": ["pipeline"],
    "additionalProperties": False,
    "properties": {
        "pipeline": {
            "type": "object",
            "required": ["identifier", "name", "stages"],
            "additionalProperties": False,
            "properties": {
                "identifier": _IDENTIFIER,
                "name": _NAME,
                "variables": _VARIABLES,
                "delegateSelectors": _SELECTORS,
                "stages": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 50,
                    "items": {
                        "type": "object",
                        "required": ["stage"],
                        "additionalProperties": False,
                        "properties": {
                            "stage": {
                                "type": "object",
                                "required": ["identifier", "type", "spec"],
                                "additionalProperties": False,
                                "properties": {
                                    "identifier": _IDENTIFIER,
                                    "name": _NAME,
                                    "type": {"enum": ["Deployment"]},
                                    "when": _build_condition("pipelineStatus"),
                                    "delegateSelectors": _SELECTORS,
                                    "spec": _STAGE_SPEC,
                                    "failureStrategies": FAILURE_STRATEGIES,
                                },
                            }
                        },
                    },
                },
            },
        }
    },
}
