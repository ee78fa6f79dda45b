"""The JSON Schema of a pipeline's YAML, for validation here and completion in editors."""

from typing import Any

from connectors.delegate_tags import TAG_PATTERN
from guards.limits import PARALLEL_BRANCHES, SELECTORS, TAG_CHARACTERS
from pipelines.definition.failure_schema import FAILURE_STRATEGIES, TIME_PATTERN

IDENTIFIER_PATTERN = "^[A-Za-z_][A-Za-z0-9_$]{0,127}$"
_IDENTIFIER = {"type": "string", "pattern": IDENTIFIER_PATTERN}
_NAME = {"type": "string", "minLength": 1, "maxLength": 128}
_VARIABLES = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "integer", "boolean", "object"]},
}
_SELECTORS = {
    "type": "array",
    "maxItems": int(SELECTORS),
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1, "maxLength": int(TAG_CHARACTERS), "pattern": TAG_PATTERN},
}
_CONDITION = {"type": ["string", "boolean"]}
_AFTER = {"enum": ["Success", "Failure", "All"]}


def _when(status: str) -> dict[str, Any]:
    """When something runs: after what, and under which condition."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {status: _AFTER, "condition": _CONDITION},
    }


def _entry(**kinds: dict[str, Any]) -> dict[str, Any]:
    """One entry of a list of steps: exactly one of these."""
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
        "when": _when("stageStatus"),
        "delegateSelectors": _SELECTORS,
        "timeout": {"type": "string", "pattern": TIME_PATTERN},
        "failureStrategies": FAILURE_STRATEGIES,
        "spec": {"type": "object"},
    },
}
# Lists of steps hold groups and parallels, which hold such lists.
_LISTED = {"$ref": "#/$defs/steps"}
_GROUP = {
    "type": "object",
    "required": ["identifier", "steps"],
    "additionalProperties": False,
    "properties": {
        "identifier": _IDENTIFIER,
        "name": _NAME,
        "when": _when("stageStatus"),
        "delegateSelectors": _SELECTORS,
        "failureStrategies": FAILURE_STRATEGIES,
        "steps": {"minItems": 1, **_LISTED},
    },
}
_PARALLEL = {"minItems": 1, "maxItems": int(PARALLEL_BRANCHES), **_LISTED}
STEPS: dict[str, Any] = {
    "type": "array",
    "items": _entry(step=_STEP, parallel=_PARALLEL, stepGroup=_GROUP),
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
                    "properties": {"steps": {"minItems": 1, **_LISTED}, "rollbackSteps": _LISTED},
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
            "properties": {"steps": _LISTED, "rollbackSteps": _LISTED},
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
                                    "when": _when("pipelineStatus"),
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
