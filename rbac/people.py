"""Which people one may see."""

from django.db.models import Q, QuerySet

from rbac.models import RoleAssignment, Scope, User, UserGroup
from rbac.policy import Principal, scopes_where


def visible_people(principal: Principal) -> QuerySet[User]:
    """Return everybody, for who may see users of the account; else who has a role where one may see users.

    Members of a group that has a role there, or hangs there, are among them.
    """
    people = User.objects.filter(kind=User.Kind.PERSON)
    scopes = scopes_where(principal, "core_user_view")
    if scopes.filter(kind=Scope.Kind.ACCOUNT).exists():
        return people
    here = scopes.values("pk")
    assigned = RoleAssignment.objects.filter(scope__in=here)
    groups = UserGroup.objects.filter(Q(scope__in=here) | Q(pk__in=assigned.values("group_id")))
    members = UserGroup.users.through.objects.filter(usergroup__in=groups.values("pk"))
    return people.filter(Q(pk__in=assigned.values("user_id")) | Q(pk__in=members.values("user_id")))
