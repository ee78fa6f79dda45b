"""Redaction of call parameters for display."""

from collections.abc import Mapping
from typing import Any

from guards.masks import SecretMask

HIDDEN = "•••"
_KEYS_WITH_SECRET_VALUES = ("environment", "environmentFiles", "files", "hcl", "headers", "inputs")
_OMITTED_KEYS = ("clientToken", "ClientRequestToken", "logUrl")
_HIDDEN_KEYS = ("ParameterValue",)
_ABBREVIATED_KEYS = ("TemplateBody",)


def redact_parameters(params: Mapping[str, Any], mask: SecretMask) -> dict[str, Any]:
    """The parameters with every environment value and every known secret hidden; secrets' ARNs stay."""
    return {key: _redact_value(key, value, mask) for key, value in params.items() if key not in _OMITTED_KEYS}


def _redact_value(key: str, value: Any, mask: SecretMask) -> Any:
    if isinstance(value, Mapping):
        if key in _KEYS_WITH_SECRET_VALUES:
            return dict.fromkeys(value, HIDDEN)
        return {name: _redact_value(name, item, mask) for name, item in value.items()}
    if isinstance(value, list | tuple):
        if key in _KEYS_WITH_SECRET_VALUES:
            return [{**item, "value": HIDDEN} if isinstance(item, Mapping) else HIDDEN for item in value]
        return [_redact_value(key, item, mask) for item in value]
    if key in _HIDDEN_KEYS:
        return HIDDEN
    if key in _ABBREVIATED_KEYS and isinstance(value, str):
        return f"{len(value):,} characters"
    return mask.mask_text(value) if isinstance(value, str) else value
