"""What every operation asks before it does anything."""

from collections.abc import Iterable

from rbac.models import Scope, User
from rbac.policy import Forbidden, permissions_at, require


def require_of(actor: User | None, permission: str, scope: Scope) -> None:
    """Ask the policy; Slipway itself (no actor) may do everything."""
    if actor is not None:
        require(actor, permission, scope)


def refuse_more_than_own(actor: User | None, permissions: Iterable[str], scope: Scope) -> None:
    """Refuse to hand out what the actor has not got at `scope`. Raises `Forbidden`."""
    if actor is None:
        return
    if lacking := sorted(set(permissions) - permissions_at(actor, scope)):
        raise Forbidden(lacking[0])
