"""What the policy asks of a thing: where it hangs, and what resource groups call it."""

from typing import Any, Protocol

from django.db.models import Model, Subquery

from rbac.models import Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS


class Scoped(Protocol):
    """Something that hangs on a scope."""

    @property
    def scope(self) -> Scope: ...


def scope_path(model: type[Model]) -> str:
    """Return the look-up that leads from a row of `model` to its scope."""
    path: str = getattr(model, "SCOPE_PATH", "scope")
    return path


def scope_id_of(thing: Scoped) -> Any:
    """Return the key of the scope that `thing` hangs on; a scope hangs on itself."""
    if isinstance(thing, Scope):
        return thing.pk
    return getattr(thing, "scope_id", None) or thing.scope.pk


def identity_path(model: Any, permission: str) -> str | None:
    """Return the look-up to what resource groups call a row of `model` when `permission` is asked.

    None where they cannot name it: then only a choice of all things of the kind speaks of it.
    """
    if permission == ALWAYS_GRANTED or permission not in PERMISSIONS:
        return None
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    return paths.get(PERMISSIONS[permission].resource)


def identity_of(thing: Any, permission: str) -> Any:
    """Return what resource groups call `thing`, as a text or as SQL; None where they cannot name it."""
    path = identity_path(thing, permission)
    return None if path is None else _identity(thing, path)


def identities_of(thing: Any) -> dict[str, Any]:
    """Return what resource groups call `thing`, by kind of resource."""
    paths: dict[str, str] = getattr(thing, "RESOURCE_PATHS", {})
    return {resource: _identity(thing, path) for resource, path in paths.items()}


def _identity(thing: Any, path: str) -> Any:
    if "__" not in path:
        return getattr(thing, path)
    # The database follows the path: what lies on the way need not be loaded.
    return Subquery(type(thing)._base_manager.filter(pk=thing.pk).values(path)[:1])
