"""Role assignments in words, as seen from the chosen scope."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import RoleAssignment, Scope
from rbac.policy import Principal, build_below_filter, filter_visible

VIEW_USERS: Final = "core_user_view"
# Assignments that one page of a list reads.
MAX_LISTED_ASSIGNMENTS: Final = 1000
MAX_SHOWN_ROLES: Final = 3


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


@dataclass(kw_only=True)
class RoleSummary:
    """Roles of one row of a list, in the chosen scope: the first are shown, the others counted."""

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


def list_granted_roles(
    principal: Principal, rows: QuerySet[RoleAssignment], scope: Scope | None, limit: int
) -> list[GrantedRole]:
    """Return the visible ones of `rows`, with their scopes as seen from `scope`."""
    visible: Iterable[RoleAssignment] = list_visible_assignments(principal, rows)[:limit]
    return [GrantedRole(row, scope) for row in visible]


def list_visible_assignments(
    principal: Principal, rows: QuerySet[RoleAssignment]
) -> QuerySet[RoleAssignment]:
    """Return the visible ones of `rows` with everything that describes them, by scope."""
    rows = rows.select_related("role", "scope", "group", "user", "resource_group")
    return filter_visible(principal, VIEW_USERS, rows).order_by("scope__path", "pk")


def build_reach_filter(scope: Scope) -> Q:
    """Return the condition that a row's scope is above, at or below `scope`."""
    return build_below_filter(scope) | Q(scope__path__in=scope.ancestor_paths())
