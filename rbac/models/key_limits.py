"""What an API key may be used for, of what its user may."""

from dataclasses import dataclass

from rbac.models.scope import Scope


@dataclass(frozen=True)
class KeyLimits:
    """A narrowed key: at or below `scope` (None: anywhere), with `permissions` (empty: all of its user's)."""

    scope: Scope | None
    permissions: frozenset[str]
