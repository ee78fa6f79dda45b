"""Redaction of differing values: possible secrets are hidden, long values truncated."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.crypto import salted_hmac

from connectors.models import Secret
from deployments.journal.secret_values import list_stage_secrets
from guards.limits import DRIFT_VALUE_CHARACTERS
from guards.masks import SecretMask
from guards.text import sanitize_text
from inventory.drift.desired_state import DesiredState
from inventory.drift.documents.differences import FieldDifference, is_sensitive_path
from inventory.models.drift import DriftComparison
from inventory.sync.column_values import clean_text
from rbac.encryption import DecryptionFailed
from rbac.models import Scope

REDACTED_VALUE: Final = "(hidden)"
MAX_PATH_LENGTH: Final = 512


@dataclass(frozen=True)
class DriftMasks:
    """The masks of one look, each made when it is first wanted."""

    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _masks: dict[tuple[str, str], SecretMask | None] = field(default_factory=dict)

    def get_mask(self, comparison: DriftComparison, desired: DesiredState) -> SecretMask | None:
        """Hides the secrets that are known where this runs, and those of the run that deployed it.

        None where they cannot be read: then nothing is to be shown.
        """
        key = (comparison.scope.path, desired.key)
        if key not in self._masks:
            self._masks[key] = self._build_mask(comparison.scope, desired)
        return self._masks[key]

    def _build_mask(self, scope: Scope, desired: DesiredState) -> SecretMask | None:
        try:
            if scope.path not in self._known:
                self._known[scope.path] = _list_secret_values(scope)
            of_run = list_stage_secrets(desired.change.step.stage) if desired.change else ()
        except DecryptionFailed:
            return None
        return SecretMask((*self._known[scope.path], *of_run))


def _list_secret_values(scope: Scope) -> tuple[str, ...]:
    """The secrets that whoever deploys here can use."""
    found = Secret.objects.filter(scope__path__in=scope.ancestor_paths())
    return tuple(one.value for one in found)


def redact_value(path: str, value: Any, mask: SecretMask | None) -> Any:
    """A value as it is kept and shown: what may be secret is hidden, what is long is cut."""
    if mask is None:
        return None if value is None else REDACTED_VALUE
    # A control character is an escape in JSON, so each text is cleaned before that.
    hidden = _clean_value(mask.mask_json(_redact_by_path(path, value)))
    text = json.dumps(hidden, ensure_ascii=False, sort_keys=True, default=str)
    return json.loads(text) if len(text) <= DRIFT_VALUE_CHARACTERS else f"{text[:DRIFT_VALUE_CHARACTERS]}…"


def _redact_by_path(path: str, value: Any) -> Any:
    if value is not None and is_sensitive_path(path):
        return REDACTED_VALUE
    if isinstance(value, Mapping):
        is_named = path.endswith((".environment", ".environmentFiles"))
        return {
            key: REDACTED_VALUE if is_named else _redact_by_path(f"{path}.{key}", inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact_by_path(path, inner) for inner in value]
    return value


def _clean_value(value: Any) -> Any:
    """The same without what no database holds."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {sanitize_text(str(key)): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(one) for one in value] if isinstance(value, list | tuple) else value


def redact_path(one: FieldDifference, mask: SecretMask | None) -> str:
    """The path of a field as it is kept: no secret in it, and two that differ stay different."""
    hidden = sanitize_text(mask.mask_text(one.path)) if mask is not None else REDACTED_VALUE
    if hidden != one.path:
        hidden = f"{hidden} #{_hash_text(one.path)[:8]}"
    return clean_text(hidden, MAX_PATH_LENGTH)


def compute_drift_fingerprint(one: FieldDifference) -> str:
    """A word for both values that tells nobody what they are: another word if one of them changed."""
    return _hash_text(json.dumps([one.desired, one.actual], sort_keys=True, default=str))


def _hash_text(text: str) -> str:
    return salted_hmac("drift.mark", text, algorithm="sha256").hexdigest()
