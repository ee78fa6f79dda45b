"""Cache of the principal's permissions during a request that changes nothing."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db.models import Model, Q, Subquery

from rbac.models import Scope, User
from rbac.policy.grants import Grants, ResourceLocation
from rbac.policy.principals import Principal
from rbac.policy.resources import HasScope, get_identities, get_identity_path, get_scope_id, get_scope_path

# Above this number of scopes, one condition in the database is cheaper.
MOST_SCOPE_IDS: Final = 1_000


class CachedPermissions:
    """Permissions of one person at one moment.

    An answer of None means that the database must be queried.
    """

    def __init__(self, person: User) -> None:
        self._person, self._grants = person, Grants([person])

    def get_permissions(self, thing: HasScope) -> frozenset[str] | None:
        """Return all permissions on `thing`, or None if its identity needs a query."""
        names: dict[str, Any] = get_identities(thing) if self._grants.has_names(self._person) else {}
        if any(isinstance(name, Subquery) for name in names.values()):
            return None
        return self._grants.get_permissions(self._person, ResourceLocation(get_scope_id(thing), names))

    def permissions_anywhere(self) -> frozenset[str]:
        """Return every permission on anything in any scope."""
        return self._grants.permissions_anywhere(self._person)

    def get_permitted_scope_ids(self, permission: str) -> frozenset[int]:
        """Return the keys of the scopes where `permission` is granted on everything of its kind."""
        return self._grants.get_permitted_scope_ids(self._person, permission)

    def get_member_scope_ids(self) -> frozenset[int]:
        """Return the keys of the scopes that the person belongs to."""
        return self._grants.get_member_scope_ids(self._person)

    def build_visible_filter(
        self, permission: str, model: type[Model], scope: Scope | None = None, above: Collection[int] = ()
    ) -> Q | None:
        """Return the filter for rows with `permission`, at or below `scope` or at `above`.

        The query planner can estimate its rows. None if it would list too many scopes.
        """
        path, identity = get_scope_path(model), get_identity_path(model, permission)
        named = {} if identity is None else self._grants.get_permitted_names(self._person, permission)
        scopes = self._within(self.get_permitted_scope_ids(permission), scope, above)
        condition, listed = Q(**{f"{path}__in": scopes}), len(scopes)
        for at, names in named.items():
            scopes = self._within(at, scope, above)
            condition |= Q(**{f"{path}__in": scopes, f"{identity}__in": sorted(names)})
            listed += len(scopes)
        return condition if listed <= MOST_SCOPE_IDS else None

    def _within(self, scopes: frozenset[int], scope: Scope | None, above: Collection[int]) -> list[int]:
        if scope is None or scope.kind == Scope.Kind.ACCOUNT:
            return sorted(scopes)
        return sorted(scopes & self._grants.below(scope.pk).union(above))


_cached_permissions: ContextVar[dict[int, CachedPermissions] | None] = ContextVar(
    "rights_of_this_request", default=None
)


@contextmanager
def cache_permissions() -> Iterator[None]:
    """Cache the permissions of each principal for the block."""
    before = _cached_permissions.set({})
    try:
        yield
    finally:
        _cached_permissions.reset(before)


def get_cached_permissions(principal: Principal) -> CachedPermissions | None:
    """Return the cached permissions of `principal`, or None if each check must query the database.

    They are None outside `cache_permissions`, and for a limited API key.
    """
    known = _cached_permissions.get()
    if known is None or not isinstance(principal, User) or principal.pk is None or principal.key_limits:
        return None
    if principal.pk not in known:
        known[principal.pk] = CachedPermissions(principal)
    return known[principal.pk]
