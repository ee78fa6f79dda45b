"""What the forms of the admin site offer to choose from: nothing that one may not see."""

from collections.abc import Callable
from typing import Any, Final

from django.db.models import Model, Q, QuerySet

from rbac.models import ResourceGroup, Role, ServiceAccount, User, UserGroup
from rbac.people import visible_people
from rbac.policy import Principal, can_anywhere, scopes_where, visible_to


def offered(principal: Principal, model: Any) -> QuerySet[Any] | None:
    """Return the rows of `model` that a form may offer to `principal`; None where it is not of access."""
    offer = _OFFERS.get(model)
    return None if offer is None else offer(principal)


def visible_roles(principal: Principal) -> QuerySet[Role]:
    """Return the built-in roles and those of scopes whose roles one may see."""
    if not can_anywhere(principal, "core_role_view"):
        return Role.objects.none()
    scopes = scopes_where(principal, "core_role_view").values("pk")
    return Role.objects.filter(Q(builtin=True) | Q(scope__in=scopes))


def people_and_programs(principal: Principal) -> QuerySet[User]:
    """Return the people and the service accounts, by their users, that one may see."""
    accounts = visible_to(principal, "core_serviceaccount_view", ServiceAccount.objects.all())
    people = visible_people(principal).values("pk")
    return User.objects.filter(Q(pk__in=people) | Q(pk__in=accounts.values("user_id"))).order_by("username")


def _groups(principal: Principal) -> QuerySet[UserGroup]:
    return visible_to(principal, "core_usergroup_view", UserGroup.objects.order_by("name"))


def _resource_groups(principal: Principal) -> QuerySet[ResourceGroup]:
    return visible_to(principal, "core_resourcegroup_view", ResourceGroup.objects.order_by("name"))


_OFFERS: Final[dict[type[Model], Callable[[Principal], QuerySet[Any]]]] = {
    Role: lambda principal: visible_roles(principal).order_by("-builtin", "name"),
    User: people_and_programs,
    UserGroup: _groups,
    ResourceGroup: _resource_groups,
}
