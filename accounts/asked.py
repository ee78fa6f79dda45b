"""What somebody asks about when they ask who may do what: a thing or a scope that they may see."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet

from rbac.models import Scope
from rbac.policy import Principal, Scoped, scopes_of_member, visible_to
from rbac.policy.thing_types import thing_types, things_called, view_of


def scope_asked(asker: Principal, path: str) -> Scope | None:
    """Return the scope of that path, None where the asker belongs to none such."""
    return scopes_of_member(asker).filter(path=path).first()


def thing_by_id(asker: Principal, kind: str, key: str) -> Scoped | None:
    """Return a thing by its id, None where there is none that the asker may see."""
    try:
        return _seen(asker, kind, thing_types()[kind]._default_manager.filter(pk=key))
    except (ValueError, ValidationError, OverflowError):
        # A text that is no key of this table is one that nothing has.
        return None


def thing_by_identifier(asker: Principal, kind: str, identifier: str, scope_path: str) -> Scoped | None:
    """Return a thing by its identifier in a scope, None where there is none that the asker may see.

    Raises `ValidationError` for a kind whose things have no identifier in their scope.
    """
    return _seen(asker, kind, things_called(kind, identifier, scope_path))


def _seen(asker: Principal, kind: str, rows: QuerySet[Any]) -> Scoped | None:
    found: Scoped | None = visible_to(asker, view_of(kind), rows).first()
    return found
