"""Resources as the policy sees them: scope, identity in resource groups, and types."""

from typing import Any, Protocol

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet, Subquery

from rbac.models import Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, RESOURCE_TYPES


class HasScope(Protocol):
    """Something that hangs on a scope."""

    @property
    def scope(self) -> Scope: ...


def get_scope_path(model: type[Model]) -> str:
    """Return the look-up that leads from a row of `model` to its scope."""
    path: str = getattr(model, "SCOPE_PATH", "scope")
    return path


def get_scope_id(thing: HasScope) -> Any:
    """Return the key of the scope that `thing` hangs on; a scope hangs on itself."""
    if isinstance(thing, Scope):
        return thing.pk
    return getattr(thing, "scope_id", None) or thing.scope.pk


def get_identity_path(model: Any, permission: str) -> str | None:
    """Return the look-up to what resource groups call a row of `model` when `permission` is asked.

    None where they cannot name it: then only a choice of all things of the kind speaks of it.
    """
    if permission == ALWAYS_GRANTED or permission not in PERMISSIONS:
        return None
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    return paths.get(PERMISSIONS[permission].resource)


def get_identity(thing: Any, permission: str) -> Any:
    """Return what resource groups call `thing`, as a text or as SQL; None where they cannot name it."""
    path = get_identity_path(thing, permission)
    return None if path is None else _resolve_identity(thing, path)


def get_identities(thing: Any) -> dict[str, Any]:
    """Return what resource groups call `thing`, by kind of resource."""
    paths: dict[str, str] = getattr(thing, "RESOURCE_PATHS", {})
    return {resource: _resolve_identity(thing, path) for resource, path in paths.items()}


def _resolve_identity(thing: Any, path: str) -> Any:
    if "__" not in path:
        return getattr(thing, path)
    # The database follows the path: what lies on the way need not be loaded.
    return Subquery(type(thing)._base_manager.filter(pk=thing.pk).values(path)[:1])


def get_resource_models() -> dict[str, type[Model]]:
    """Return the tables of things by what they are called: those whose model has a `RESOURCE_TYPE`."""
    return {
        model.RESOURCE_TYPE: model
        for model in sorted(apps.get_models(), key=lambda one: one._meta.label)
        if hasattr(model, "RESOURCE_TYPE")
    }


def list_identifiable_types() -> list[tuple[str, str]]:
    """Return the kinds of things that have an identifier in their scope, each with what one is called."""
    titles = {resource.identifier: resource.title.removesuffix("s") for resource in RESOURCE_TYPES}
    return [
        (kind, titles[kind])
        for kind, model in get_resource_models().items()
        if _get_identifier_column(kind, model)
    ]


def get_type_view_permission(kind: str) -> str:
    """Return the permission to see things of `kind`."""
    return f"core_{_get_resource_type(kind)}_view"


def filter_by_identifier(kind: str, identifier: str, scope_path: str) -> QuerySet[Any]:
    """Return the thing of `kind` that is called `identifier` in a scope, if there is one.

    Raises `ValidationError` for a kind whose things have no identifier in their scope.
    """
    model = get_resource_models()[kind]
    column = _get_identifier_column(kind, model)
    if not column:
        raise ValidationError(f"Name the {kind} by its id: it has no identifier in its scope.")
    return model._default_manager.filter(**{column: identifier, "scope__path": scope_path})


def _get_identifier_column(kind: str, model: type[Model]) -> str:
    """Return the column that names a thing in its scope, empty where there is none."""
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    column = paths.get(kind, "")
    return "" if "__" in column else column


def _get_resource_type(kind: str) -> str:
    paths: dict[str, str] = getattr(get_resource_models()[kind], "RESOURCE_PATHS", {})
    return next(iter(paths))
