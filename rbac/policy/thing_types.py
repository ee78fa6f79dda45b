"""The kinds of things that can be named when one asks who may do what with them."""

from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet

from rbac.permissions import RESOURCES


def thing_types() -> dict[str, type[Model]]:
    """Return the tables of things by what they are called: those whose model has a `THING_TYPE`."""
    return {
        model.THING_TYPE: model
        for model in sorted(apps.get_models(), key=lambda one: one._meta.label)
        if hasattr(model, "THING_TYPE")
    }


def named_kinds() -> list[tuple[str, str]]:
    """Return the kinds of things that have an identifier in their scope, each with what one is called."""
    titles = {resource.identifier: resource.title.removesuffix("s") for resource in RESOURCES}
    return [(kind, titles[kind]) for kind, model in thing_types().items() if _identifier_of(kind, model)]


def view_of(kind: str) -> str:
    """Return the permission to see things of `kind`."""
    return f"core_{_resource(kind)}_view"


def things_called(kind: str, identifier: str, scope_path: str) -> QuerySet[Any]:
    """Return the thing of `kind` that is called `identifier` in a scope, if there is one.

    Raises `ValidationError` for a kind whose things have no identifier in their scope.
    """
    model = thing_types()[kind]
    column = _identifier_of(kind, model)
    if not column:
        raise ValidationError(f"Name the {kind} by its id: it has no identifier in its scope.")
    return model._default_manager.filter(**{column: identifier, "scope__path": scope_path})


def _identifier_of(kind: str, model: type[Model]) -> str:
    """The column that names a thing in its scope, empty where there is none."""
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    column = paths.get(kind, "")
    return "" if "__" in column else column


def _resource(kind: str) -> str:
    paths: dict[str, str] = getattr(thing_types()[kind], "RESOURCE_PATHS", {})
    return next(iter(paths))
