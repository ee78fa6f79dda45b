"""User groups of a scope with their members and roles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Q, QuerySet

from accounts.queries.granted_roles import (
    MAX_LISTED_ASSIGNMENTS,
    GrantedRole,
    RoleSummary,
    build_reach_filter,
    list_granted_roles,
)
from accounts.queries.people import build_person_search
from rbac.models import RoleAssignment, Scope, User, UserGroup
from rbac.policy import Principal, filter_visible
from rbac.policy.principals import build_validity_filter
from rbac.queries import list_visible_users
from web.search_filters import contains_text

VIEW_GROUPS: Final = "core_usergroup_view"
GROUP_FILTERS: Final[Mapping[str, str]] = {
    "": "All groups",
    "product": "Members from Slipway",
    "single-sign-on": "Members from single sign-on",
    "empty": "Without members",
}


@dataclass
class GroupSummary(RoleSummary):
    """Group of a list with its roles in the chosen scope."""

    group: UserGroup


@dataclass(frozen=True)
class GroupMember:
    """Member of a group; a reader who may not view the person sees the user name alone."""

    person: User
    is_visible: bool


def list_visible_groups(principal: Principal) -> QuerySet[UserGroup]:
    """Return the visible groups with their scopes."""
    return filter_visible(principal, VIEW_GROUPS, UserGroup.objects.select_related("scope"))


def get_visible_group_ids(principal: Principal, roles: Iterable[GrantedRole]) -> set[int]:
    """Return the keys of the visible groups that hold some of these roles; one query."""
    keys = {key for role in roles if (key := role.assignment.group_id) is not None}
    groups = filter_visible(principal, VIEW_GROUPS, UserGroup.objects.filter(pk__in=keys))
    return set(groups.values_list("pk", flat=True))


def list_groups(principal: Principal, scope: Scope | None, name: str) -> QuerySet[UserGroup]:
    """Return the visible groups of a scope, above it and below it that match one of `GROUP_FILTERS`."""
    if scope is None:
        return UserGroup.objects.none()
    groups = list_visible_groups(principal).filter(build_reach_filter(scope))
    filters = {
        "product": Q(external_name=""),
        "single-sign-on": ~Q(external_name=""),
        "empty": Q(user_count=0),
    }
    return groups.annotate(user_count=Count("users")).filter(filters.get(name, Q()))


def summarize_groups(
    principal: Principal, groups: Sequence[UserGroup], scope: Scope | None
) -> list[GroupSummary]:
    """Return the groups with their visible roles that count in a scope, in the same order; one query."""
    summaries = {group.pk: GroupSummary(group) for group in groups}
    rows = RoleAssignment.objects.filter(build_validity_filter(), group__in=summaries)
    if scope is not None:
        rows = rows.filter(build_reach_filter(scope))
    for role in list_granted_roles(principal, rows, scope, MAX_LISTED_ASSIGNMENTS):
        if role.assignment.group_id is not None:
            summaries[role.assignment.group_id].roles.append(role)
    return list(summaries.values())


def list_members(principal: Principal, group: UserGroup, text: str) -> QuerySet[User]:
    """Return the members of a group that match a search text.

    Only visible people are found by more than their user name.
    """
    if not text:
        return group.users.all()
    visible = list_visible_users(principal).filter(build_person_search(text)).values("pk")
    return group.users.filter(Q(contains_text("username", text)) | Q(pk__in=visible))


def describe_members(principal: Principal, members: Sequence[User]) -> list[GroupMember]:
    """Return members with their visibility; one query."""
    keys = [member.pk for member in members]
    visible = set(list_visible_users(principal).filter(pk__in=keys).values_list("pk", flat=True))
    return [GroupMember(member, member.pk in visible) for member in members]


def list_candidates(principal: Principal, group: UserGroup, text: str = "") -> QuerySet[User]:
    """Return the visible people who are not in a group and match a search text, by user name."""
    people = list_visible_users(principal).exclude(pk__in=group.users.values("pk"))
    return people.filter(build_person_search(text)).order_by("username")
