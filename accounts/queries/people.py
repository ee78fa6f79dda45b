"""People of a scope with their roles, sign-in source and second factor."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from accounts.authentication.two_factor import SECOND_FACTOR_TYPES
from rbac.models import RoleAssignment, Scope, User, UserGroup
from rbac.policy import Principal, build_below_filter, filter_visible, list_permitted_scopes
from rbac.policy.principals import build_validity_filter
from rbac.queries import list_visible_users
from web.search_filters import contains_text

VIEW_USERS: Final = "core_user_view"
# Assignments that one page of the list reads.
MAX_LISTED_ASSIGNMENTS: Final = 1000
MAX_SHOWN_ROLES: Final = 3
PERSON_FILTERS: Final[Mapping[str, str]] = {
    "": "All people",
    "active": "Active",
    "disabled": "Disabled",
    "no-second-factor": "Without second factor",
    "single-sign-on": "Single sign-on",
    "local": "Local",
}
_SEARCHED_COLUMNS: Final = ("username", "email", "first_name", "last_name")


@dataclass(frozen=True)
class GrantedRole:
    """Assignment with its scope in words, as seen from the chosen scope."""

    assignment: RoleAssignment
    chosen: Scope | None

    @property
    def scope(self) -> str:
        """Return the scope in words: "from organization acme" for an inherited role."""
        scope, chosen = self.assignment.scope, self.chosen
        is_inherited = chosen is not None and chosen.path.startswith(f"{scope.path}/")
        return f"{'from' if is_inherited else 'in'} {describe_scope(scope)}"

    @property
    def is_expired(self) -> bool:
        expires_at = self.assignment.expires_at
        return expires_at is not None and expires_at <= timezone.now()


@dataclass
class PersonSummary:
    """Person of a list with their roles in the chosen scope."""

    person: User
    roles: list[GrantedRole] = field(default_factory=list)

    @property
    def shown_roles(self) -> list[GrantedRole]:
        return self.roles[:MAX_SHOWN_ROLES]

    @property
    def hidden_count(self) -> int:
        return max(0, len(self.roles) - MAX_SHOWN_ROLES)


def describe_scope(scope: Scope) -> str:
    """Return a scope in words, such as "project shop"."""
    if scope.kind == Scope.Kind.ACCOUNT:
        return "the account"
    return f"{scope.get_kind_display().lower()} {scope.name}"


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
    for row in _list_visible_assignments(principal, rows)[:MAX_LISTED_ASSIGNMENTS]:
        holders = [row.user_id] if row.user_id is not None else members[row.group_id or 0]
        for pk in holders:
            summaries[pk].roles.append(GrantedRole(row, scope))
    return list(summaries.values())


def list_granted_roles(
    principal: Principal, rows: QuerySet[RoleAssignment], scope: Scope | None, limit: int
) -> list[GrantedRole]:
    """Return the visible ones of `rows`, with their scopes as seen from `scope`."""
    visible: Iterable[RoleAssignment] = _list_visible_assignments(principal, rows)[:limit]
    return [GrantedRole(row, scope) for row in visible]


def _list_visible_assignments(
    principal: Principal, rows: QuerySet[RoleAssignment]
) -> QuerySet[RoleAssignment]:
    rows = rows.select_related("role", "scope", "group", "user", "resource_group")
    return filter_visible(principal, VIEW_USERS, rows).order_by("scope__path", "pk")


def _annotate_sign_in(people: QuerySet[User]) -> QuerySet[User]:
    factors = Authenticator.objects.filter(user=OuterRef("pk"), type__in=SECOND_FACTOR_TYPES)
    links = SocialAccount.objects.filter(user=OuterRef("pk"))
    return people.annotate(has_second_factor=Exists(factors), uses_single_sign_on=Exists(links))


def build_reach_filter(scope: Scope) -> Q:
    """Return the condition that a row's scope is above, at or below `scope`."""
    return build_below_filter(scope) | Q(scope__path__in=scope.ancestor_paths())
