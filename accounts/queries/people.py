"""People of a scope with their roles, sign-in source and second factor."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from allauth.mfa.models import Authenticator
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.authentication.sign_in_methods import list_links
from accounts.authentication.two_factor import SECOND_FACTOR_TYPES
from accounts.queries.granted_roles import (
    MAX_LISTED_ASSIGNMENTS,
    VIEW_USERS,
    GrantedRole,
    RoleSummary,
    build_reach_filter,
    list_visible_assignments,
)
from rbac.models import RoleAssignment, Scope, User, UserGroup
from rbac.policy import Principal, build_below_filter, filter_visible, list_permitted_scopes
from rbac.policy.principals import build_validity_filter
from rbac.queries import list_visible_users
from web.search_filters import contains_text

PERSON_FILTERS: Final[Mapping[str, str]] = {
    "": "All people",
    "active": "Active",
    "disabled": "Disabled",
    "no-second-factor": "Without second factor",
    "single-sign-on": "Single sign-on",
    "local": "Local",
}
_SEARCHED_COLUMNS: Final = ("username", "email", "first_name", "last_name")


@dataclass
class PersonSummary(RoleSummary):
    """Person of a list with their roles in the chosen scope."""

    person: User


def list_people(principal: Principal, scope: Scope | None) -> QuerySet[User]:
    """Return the visible people with a role or a group in a scope, above it or below it.

    In the account these are all visible people. Rows have `uses_single_sign_on` and `has_second_factor`.
    """
    people = _annotate_sign_in(list_visible_users(principal))
    if scope is None:
        return people.none()
    if scope.kind == Scope.Kind.ACCOUNT:
        return people
    assigned = filter_visible(principal, VIEW_USERS, RoleAssignment.objects.filter(build_reach_filter(scope)))
    in_scope = Q(
        build_below_filter(scope), scope__in=list_permitted_scopes(principal, VIEW_USERS).values("pk")
    )
    groups = UserGroup.objects.filter(Q(pk__in=assigned.values("group_id")) | in_scope)
    members = UserGroup.users.through.objects.filter(usergroup__in=groups.values("pk"))
    return people.filter(Q(pk__in=assigned.values("user_id")) | Q(pk__in=members.values("user_id")))


def get_people_with_sign_in(principal: Principal) -> QuerySet[User]:
    """Return all visible people, annotated like those of `list_people`."""
    return _annotate_sign_in(list_visible_users(principal))


def build_person_filter(text: str, name: str) -> Q:
    """Return the condition for a search text and one of `PERSON_FILTERS`; rows are annotated."""
    filters = {
        "active": Q(is_active=True),
        "disabled": Q(is_active=False),
        "no-second-factor": Q(has_second_factor=False),
        "single-sign-on": Q(uses_single_sign_on=True),
        "local": ~Q(password__startswith=UNUSABLE_PASSWORD_PREFIX),
    }
    return build_person_search(text) & filters.get(name, Q())


def build_person_search(text: str) -> Q:
    """Return the condition that a user name, name or email address contains a text; without one all match."""
    condition = Q()
    for column in _SEARCHED_COLUMNS if text else ():
        condition |= Q(contains_text(column, text))
    return condition


def summarize_people(
    principal: Principal, people: Sequence[User], scope: Scope | None
) -> list[PersonSummary]:
    """Return the people with their roles that count in a scope, in the same order; two queries."""
    summaries = {person.pk: PersonSummary(person) for person in people}
    members = defaultdict(list)
    memberships = UserGroup.users.through.objects.filter(user__in=summaries)
    for user_id, group_id in memberships.values_list("user_id", "usergroup_id"):
        members[group_id].append(user_id)
    rows = RoleAssignment.objects.filter(Q(user__in=summaries) | Q(group__in=members))
    rows = rows.filter(build_validity_filter())
    if scope is not None:
        rows = rows.filter(build_reach_filter(scope))
    for row in list_visible_assignments(principal, rows)[:MAX_LISTED_ASSIGNMENTS]:
        holders = [row.user_id] if row.user_id is not None else members[row.group_id or 0]
        for pk in holders:
            summaries[pk].roles.append(GrantedRole(row, scope))
    return list(summaries.values())


def _annotate_sign_in(people: QuerySet[User]) -> QuerySet[User]:
    factors = Authenticator.objects.filter(user=OuterRef("pk"), type__in=SECOND_FACTOR_TYPES)
    links = list_links().filter(user=OuterRef("pk"))
    return people.annotate(has_second_factor=Exists(factors), uses_single_sign_on=Exists(links))
