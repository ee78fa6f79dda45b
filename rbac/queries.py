"""Users, roles, groups and archived scopes that are visible to a principal."""

from collections.abc import Callable
from typing import Any, Final

from django.db.models import Model, Q, QuerySet

from rbac.models import ResourceGroup, Role, RoleAssignment, Scope, ServiceAccount, User, UserGroup
from rbac.policy import Principal, can_anywhere, filter_visible, list_permitted_scopes


def list_visible_users(principal: Principal) -> QuerySet[User]:
    """Return all users for principals with account-wide access, else those with a role in a visible scope.

    Members of groups with a role or a place there are included.
    """
    people = User.objects.filter(kind=User.Kind.PERSON)
    scopes = list_permitted_scopes(principal, "core_user_view")
    if scopes.filter(kind=Scope.Kind.ACCOUNT).exists():
        return people
    scope_ids = scopes.values("pk")
    assigned = RoleAssignment.objects.filter(scope__in=scope_ids)
    groups = UserGroup.objects.filter(Q(scope__in=scope_ids) | Q(pk__in=assigned.values("group_id")))
    members = UserGroup.users.through.objects.filter(usergroup__in=groups.values("pk"))
    return people.filter(Q(pk__in=assigned.values("user_id")) | Q(pk__in=members.values("user_id")))


def list_choices(principal: Principal, model: Any) -> QuerySet[Any] | None:
    """Return the rows of `model` that a form may offer to `principal`; None for other models."""
    offer = _CHOICES_BY_MODEL.get(model)
    return None if offer is None else offer(principal)


def list_visible_roles(principal: Principal) -> QuerySet[Role]:
    """Return the built-in roles and those of visible scopes."""
    if not can_anywhere(principal, "core_role_view"):
        return Role.objects.none()
    scopes = list_permitted_scopes(principal, "core_role_view").values("pk")
    return Role.objects.filter(Q(builtin=True) | Q(scope__in=scopes))


def list_visible_principals(principal: Principal) -> QuerySet[User]:
    """Return the users and service accounts that are visible."""
    accounts = filter_visible(principal, "core_serviceaccount_view", ServiceAccount.objects.all())
    people = list_visible_users(principal).values("pk")
    return User.objects.filter(Q(pk__in=people) | Q(pk__in=accounts.values("user_id"))).order_by("username")


def _list_groups(principal: Principal) -> QuerySet[UserGroup]:
    return filter_visible(principal, "core_usergroup_view", UserGroup.objects.order_by("name"))


def _list_resource_groups(principal: Principal) -> QuerySet[ResourceGroup]:
    return filter_visible(principal, "core_resourcegroup_view", ResourceGroup.objects.order_by("name"))


_CHOICES_BY_MODEL: Final[dict[type[Model], Callable[[Principal], QuerySet[Any]]]] = {
    Role: lambda principal: list_visible_roles(principal).order_by("-builtin", "name"),
    User: list_visible_principals,
    UserGroup: _list_groups,
    ResourceGroup: _list_resource_groups,
}


def list_restorable_scopes(principal: Principal) -> QuerySet[Scope]:
    """Return the archived scopes that the principal may restore, without those below another archived one."""
    kinds = (("ORGANIZATION", "core_organization_delete"), ("PROJECT", "core_project_delete"))
    condition = Q(pk__in=[])
    for kind, permission in kinds:
        condition |= Q(kind=kind, parent__in=list_permitted_scopes(principal, permission).values("pk"))
    return Scope.objects.filter(condition, archived_at__isnull=False, parent__archived_at__isnull=True)
