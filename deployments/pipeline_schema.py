"""The JSON Schema of a pipeline's YAML, for validation here and completion in editors."""

from typing import Any

from connectors.delegate_tags import TAG_PATTERN
from deployments.failure_schema import FAILURE_STRATEGIES, TIME_PATTERN
from guards.limits import SELECTORS, TAG_CHARACTERS

IDENTIFIER_PATTERN = "^[A-Za-z_][A-Za-z0-9_$]{0,127}$"
_IDENTIFIER = {"type": "string", "pattern": IDENTIFIER_PATTERN}
_NAME = {"type": "string", "minLength": 1, "maxLength": 128}
_VARIABLES = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "integer", "boolean"]},
}
_SELECTORS = {
    "type": "array",
    "maxItems": int(SELECTORS),
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1, "maxLength": int(TAG_CHARACTERS), "pattern": TAG_PATTERN},
}
_STEP = {
    "type": "object",
    "required": ["step"],
    "additionalProperties": False,
    "properties": {
        "step": {
            "type": "object",
            "required": ["type", "identifier"],
            "additionalProperties": False,
            "properties": {
                "type": {"type": "string"},
                "identifier": _IDENTIFIER,
                "name": _NAME,
                "delegateSelectors": _SELECTORS,
                "timeout": {"type": "string", "pattern": TIME_PATTERN},
                "failureStrategies": FAILURE_STRATEGIES,
                "spec": {"type": "object"},
            },
        }
    },
}
_STEPS = {"type": "array", "items": _STEP, "maxItems": 100}
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
            "properties": {"steps": _STEPS, "rollbackSteps": _STEPS},
        },
    },
}
PIPELINE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Slipway pipeline",
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
