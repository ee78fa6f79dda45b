"""What a list page shows: things of the scope that the reader has chosen, at it or below it."""

from typing import TypeVar

from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest

from rbac.models import Scope
from rbac.policy import Principal, visible_to

Thing = TypeVar("Thing", bound=Model)


def visible_here(request: HttpRequest, permission: str, queryset: QuerySet[Thing]) -> QuerySet[Thing]:
    """This will narrow a queryset to what the reader may see in the chosen scope."""
    principal: Principal = request.user
    scope: Scope | None = getattr(request, "current_scope", None)
    if scope is None:
        return queryset.none()
    path = getattr(queryset.model, "SCOPE_PATH", "scope")
    below = Q(**{f"{path}__path__startswith": f"{scope.path}/"})
    return visible_to(principal, permission, queryset).filter(Q(**{path: scope}) | below)
