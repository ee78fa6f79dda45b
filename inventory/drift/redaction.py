"""Redaction of differing values: possible secrets are hidden, long values truncated."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.crypto import salted_hmac

from connectors.models import Secret
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from deployments.journal.secret_values import list_stage_secrets
from deployments.models import StageExecution
from guards.limits import DRIFT_VALUE_CHARACTERS
from guards.masks import SecretMask
from guards.text import sanitize_text
from inventory.drift.desired_state import DesiredState
from inventory.drift.documents.differences import FieldDifference, is_sensitive_path
from inventory.models.drift import Drift, DriftComparison
from inventory.sync.column_values import clean_text
from rbac.encryption import DecryptionFailed
from rbac.models import Scope

REDACTED_VALUE: Final = "(hidden)"
MAX_PATH_LENGTH: Final = 512


@dataclass(frozen=True)
class DriftMasks:
    """The secret masks of one scan, built on first use."""

    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _masks: dict[tuple[str, str], SecretMask | None] = field(default_factory=dict)

    def get_mask(self, comparison: DriftComparison, desired: DesiredState) -> SecretMask | None:
        """Return the mask for the secrets of this scope and of the execution that deployed the service.

        Returns None where secrets cannot be decrypted or read; then no value may be shown.
        """
        key = (comparison.scope.path, desired.key)
        if key not in self._masks:
            stages = [desired.change.step.stage] if desired.change else []
            self._masks[key] = self.build_mask(comparison.scope, stages)
        return self._masks[key]

    def build_mask(self, scope: Scope, stages: Iterable[StageExecution]) -> SecretMask | None:
        """Return the mask for the secrets of a scope and of these stages; None as `get_mask` does."""
        try:
            if scope.path not in self._known:
                self._known[scope.path] = _list_secret_values(scope)
            stage_secrets = [secret for stage in stages for secret in list_stage_secrets(stage)]
        except (DecryptionFailed, SecretUnreadable):
            return None
        return SecretMask((*self._known[scope.path], *dict.fromkeys(stage_secrets)))


def _list_secret_values(scope: Scope) -> tuple[str, ...]:
    """Return the secrets that deployments in this scope can use."""
    secrets = Secret.objects.filter(scope__path__in=scope.ancestor_paths())
    return tuple(read_secret_value(secret, reader=f"drift of {scope}") for secret in secrets)


def redact_value(path: str, value: Any, mask: SecretMask | None) -> Any:
    """Redact possible secrets in a value, and truncate long values."""
    if mask is None:
        return None if value is None else REDACTED_VALUE
    # A control character is an escape in JSON, so each text is cleaned before that.
    redacted = _clean_value(mask.mask_json(_redact_by_path(path, value)))
    text = json.dumps(redacted, ensure_ascii=False, sort_keys=True, default=str)
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
    """Remove characters that a database does not store."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {sanitize_text(str(key)): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(item) for item in value] if isinstance(value, list | tuple) else value


def redact_path(difference: FieldDifference, mask: SecretMask | None) -> str:
    """Redact secrets in a path; a hash keeps two redacted paths distinct."""
    redacted = sanitize_text(mask.mask_text(difference.path)) if mask is not None else REDACTED_VALUE
    if redacted != difference.path:
        redacted = f"{redacted}{_build_path_suffix(difference.path)}"
    return clean_text(redacted, MAX_PATH_LENGTH)


def find_drift(
    open_drifts: Mapping[tuple[str, str], Drift], difference: FieldDifference, mask: SecretMask | None
) -> Drift | None:
    """Return the open drift of a field, by document and path.

    Its path may be redacted otherwise: secrets are added, and cannot always be read.
    """
    if drift := open_drifts.get((difference.document, redact_path(difference, mask))):
        return drift
    plain, suffix = clean_text(difference.path, MAX_PATH_LENGTH), _build_path_suffix(difference.path)
    return next(
        (
            drift
            for (document, path), drift in open_drifts.items()
            if document == difference.document and (path == plain or path.endswith(suffix))
        ),
        None,
    )


def is_redacted_path(path: str) -> bool:
    """Return whether a path was found while secrets could not be read."""
    return path.startswith(f"{REDACTED_VALUE} #")


def _build_path_suffix(path: str) -> str:
    return f" #{_hash_text(path)[:8]}"


def compute_drift_fingerprint(difference: FieldDifference) -> str:
    """Return a hash of both values that reveals neither."""
    return _hash_text(json.dumps([difference.desired, difference.actual], sort_keys=True, default=str))


def _hash_text(text: str) -> str:
    return salted_hmac("drift.mark", text, algorithm="sha256").hexdigest()
