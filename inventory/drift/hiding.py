"""What of two values that differ a person may see: nothing that may be a secret, and nothing without end."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.crypto import salted_hmac

from connectors.models import Secret
from deployments.engine.masking import secrets_of
from guards.limits import DRIFT_VALUE_CHARACTERS
from guards.masks import Mask
from guards.text import clean
from inventory.drift.desired import Desired
from inventory.drift.documents.comparing import Difference, is_value
from inventory.models.drift import Comparison
from inventory.sync.columns import text as text_of_column
from rbac.encryption import WrongKey
from rbac.models import Scope

HIDDEN: Final = "(hidden)"
PATH: Final = 512


@dataclass(frozen=True)
class Hiding:
    """The masks of one look, each made when it is first wanted."""

    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _masks: dict[tuple[str, str], Mask | None] = field(default_factory=dict)

    def mask_for(self, comparison: Comparison, desired: Desired) -> Mask | None:
        """Hides the secrets that are known where this runs, and those of the run that deployed it.

        None where they cannot be read: then nothing is to be shown.
        """
        key = (comparison.scope.path, desired.key)
        if key not in self._masks:
            self._masks[key] = self._made(comparison.scope, desired)
        return self._masks[key]

    def _made(self, scope: Scope, desired: Desired) -> Mask | None:
        try:
            if scope.path not in self._known:
                self._known[scope.path] = _known_in(scope)
            of_run = secrets_of(desired.change.step.stage) if desired.change else ()
        except WrongKey:
            return None
        return Mask((*self._known[scope.path], *of_run))


def _known_in(scope: Scope) -> tuple[str, ...]:
    """The secrets that whoever deploys here can use."""
    found = Secret.objects.filter(scope__path__in=scope.ancestor_paths())
    return tuple(one.value for one in found)


def shown(path: str, value: Any, mask: Mask | None) -> Any:
    """A value as it is kept and shown: what may be secret is hidden, what is long is cut."""
    if mask is None:
        return None if value is None else HIDDEN
    # A control character is an escape in JSON, so each text is cleaned before that.
    hidden = _cleaned(mask.inside(_hidden(path, value)))
    text = json.dumps(hidden, ensure_ascii=False, sort_keys=True, default=str)
    return json.loads(text) if len(text) <= DRIFT_VALUE_CHARACTERS else f"{text[:DRIFT_VALUE_CHARACTERS]}…"


def _hidden(path: str, value: Any) -> Any:
    if value is not None and is_value(path):
        return HIDDEN
    if isinstance(value, Mapping):
        is_named = path.endswith((".environment", ".environmentFiles"))
        return {key: HIDDEN if is_named else _hidden(f"{path}.{key}", inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(path, inner) for inner in value]
    return value


def _cleaned(value: Any) -> Any:
    """The same without what no database holds."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(one) for one in value] if isinstance(value, list | tuple) else value


def path_of(one: Difference, mask: Mask | None) -> str:
    """The path of a field as it is kept: no secret in it, and two that differ stay different."""
    hidden = clean(mask.text(one.path)) if mask is not None else HIDDEN
    if hidden != one.path:
        hidden = f"{hidden} #{_word(one.path)[:8]}"
    return text_of_column(hidden, PATH)


def mark_of(one: Difference) -> str:
    """A word for both values that tells nobody what they are: another word if one of them changed."""
    return _word(json.dumps([one.desired, one.found], sort_keys=True, default=str))


def _word(text: str) -> str:
    return salted_hmac("drift.mark", text, algorithm="sha256").hexdigest()
