"""What a list page shows: things of the scope that the reader has chosen, at it or below it."""

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from rbac.policy import Principal, at_or_below, visible_to
from web.pages import PageRequest

Thing = TypeVar("Thing", bound=Model)


def visible_here(request: PageRequest, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """This will narrow a queryset to what the reader may see in the chosen scope."""
    principal: Principal = request.user
    scope = request.current_scope
    if scope is None:
        return queryset.none()
    path = getattr(queryset.model, "SCOPE_PATH", "scope")
    return visible_to(principal, permission, queryset).filter(at_or_below(scope, path))


def granted(request: PageRequest, permission: str, model: type[Thing], items: Iterable[Thing]) -> set[Any]:
    """This will say on which rows of a list the reader may do something more; one query for all of them."""
    principal: Principal = request.user
    shown = model._default_manager.filter(pk__in=[item.pk for item in items])
    return set(visible_to(principal, permission, shown).values_list("pk", flat=True))
