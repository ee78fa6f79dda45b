"""What a list page shows: things at or below the chosen scope, and what is shared with it from above."""

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from rbac.models import Scope
from rbac.permissions import SHARED_VIEWS
from rbac.policy import Principal, at_or_below, visible_below, visible_to
from web.pages import PageRequest

Thing = TypeVar("Thing", bound=Model)


def visible_here(request: PageRequest, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """This will narrow a queryset to what the reader may see in the chosen scope.

    What is shared downwards, such as connectors, is there too where it hangs above the chosen scope.
    """
    principal: Principal = request.user
    scope = request.current_scope
    if scope is None:
        return queryset.none()
    path = getattr(queryset.model, "SCOPE_PATH", "scope")
    here = at_or_below(scope, path)
    if permission in SHARED_VIEWS:
        here |= Q(**{f"{path}__in": keys_above(scope)})
    return visible_to(principal, permission, queryset).filter(here)


def visible_on_long_list(request: PageRequest, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """This will narrow as `visible_here` does, in one or two queries more: for tables that grow all the time.

    The scopes are asked for first, so that the database knows how many rows to expect.
    """
    scope = request.current_scope
    if scope is None:
        return queryset.none()
    above = keys_above(scope) if permission in SHARED_VIEWS else []
    return visible_below(request.user, permission, queryset, scope, above)


def keys_above(scope: Scope) -> list[int]:
    """Return the keys of the scopes above `scope`; no query where its parent was read with it."""
    above = (scope.parent_id, scope.parent.parent_id if scope.parent is not None else None)
    return [key for key in above if key is not None]


def topics_here(request: PageRequest, name: str, *, is_shared: bool = False) -> str:
    """This will name what a list of the chosen scope wants to hear of; `is_shared` adds what hangs above."""
    scope = request.current_scope
    if scope is None:
        return ""
    above = [f"{name}-at:{pk}" for pk in keys_above(scope)] if is_shared else []
    return " ".join([f"{name}:{scope.pk}", *above])


def granted(request: PageRequest, permission: str, model: type[Thing], items: Iterable[Thing]) -> set[Any]:
    """This will say on which rows of a list the reader may do something more; one query for all of them."""
    principal: Principal = request.user
    shown = model._default_manager.filter(pk__in=[item.pk for item in items])
    return set(visible_to(principal, permission, shown).values_list("pk", flat=True))
