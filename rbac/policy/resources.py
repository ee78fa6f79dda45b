"""Resources in the policy: scope, identity in resource groups, and types."""

from typing import Any, Protocol

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet

from rbac.models import Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, RESOURCE_TITLES


class HasScope(Protocol):
    """Something that hangs on a scope."""

    @property
    def scope(self) -> Scope: ...


def get_scope_path(model: type[Model]) -> str:
    """Return the lookup from a row of `model` to its scope."""
    path: str = getattr(model, "SCOPE_PATH", "scope")
    return path


def get_scope_id(thing: HasScope) -> Any:
    """Return the key of the scope that `thing` hangs on; a scope hangs on itself."""
    if isinstance(thing, Scope):
        return thing.pk
    return getattr(thing, "scope_id", None) or thing.scope.pk


def get_identity_path(model: Any, permission: str) -> str | None:
    """Return the lookup of a row's identity in resource groups for `permission`.

    None if groups cannot list single rows; then only an entry for the whole type matches.
    """
    if permission == ALWAYS_GRANTED or permission not in PERMISSIONS:
        return None
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    return paths.get(PERMISSIONS[permission].resource)


def get_identities(thing: Any) -> dict[str, str]:
    """Return the identities of `thing` in resource groups by type; one query if related rows have them."""
    paths: dict[str, str] = getattr(thing, "RESOURCE_PATHS", {})
    if all("__" not in path for path in paths.values()):
        return {resource: getattr(thing, path) for resource, path in paths.items()}
    row = type(thing)._base_manager.filter(pk=thing.pk).values_list(*paths.values()).first()
    return dict(zip(paths, row, strict=True)) if row is not None else {}


def get_resource_models() -> dict[str, type[Model]]:
    """Return the models with a `RESOURCE_TYPE`, by that type."""
    return {
        model.RESOURCE_TYPE: model
        for model in sorted(apps.get_models(), key=lambda candidate: candidate._meta.label)
        if hasattr(model, "RESOURCE_TYPE")
    }


def list_identifiable_types() -> list[tuple[str, str]]:
    """Return the resource types with identifiers, each with its display name."""
    return [
        (kind, get_resource_title(kind))
        for kind, model in get_resource_models().items()
        if get_identifier_column(kind, model)
    ]


def get_resource_title(kind: str) -> str:
    """Return the display name of one resource of `kind`, such as "Pipeline"."""
    return RESOURCE_TITLES[kind].removesuffix("s")


def get_type_view_permission(kind: str) -> str:
    """Return the view permission of `kind`."""
    return f"core_{_get_resource_type(kind)}_view"


def filter_by_identifier(kind: str, identifier: str, scope_path: str) -> QuerySet[Any]:
    """Return the resource of `kind` with `identifier` in a scope, if any.

    Raises `ValidationError` for a type without identifiers.
    """
    model = get_resource_models()[kind]
    column = get_identifier_column(kind, model)
    if not column:
        raise ValidationError(f"Use the id of the {kind}: it has no identifier in its scope.")
    return model._default_manager.filter(**{column: identifier, f"{get_scope_path(model)}__path": scope_path})


def get_identifier_column(kind: str, model: type[Model]) -> str:
    """Return the column of the identifier in a scope, or an empty text."""
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    column = paths.get(kind, "")
    return "" if "__" in column else column


def _get_resource_type(kind: str) -> str:
    paths: dict[str, str] = getattr(get_resource_models()[kind], "RESOURCE_PATHS", {})
    return next(iter(paths))
