"""Roles of a scope with their holders, and their permissions in words."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count, Q, QuerySet

from accounts.queries.granted_roles import VIEW_USERS, build_reach_filter
from rbac.models import Role, RoleAssignment, Scope
from rbac.permissions import RESOURCE_TYPES
from rbac.policy import Principal, filter_visible
from rbac.queries import list_visible_roles

ROLE_FILTERS: Final[Mapping[str, str]] = {"": "All roles", "built-in": "Built-in", "custom": "Custom"}


@dataclass(frozen=True)
class ResourcePermissions:
    """Permissions of a role on one type of resource, in words."""

    title: str
    granted: Sequence[str]
    missing: Sequence[str]


def list_roles(principal: Principal, scope: Scope | None, name: str) -> QuerySet[Role]:
    """Return the visible roles of a scope, above it and below it that match one of `ROLE_FILTERS`."""
    if scope is None:
        return Role.objects.none()
    roles = list_visible_roles(principal).filter(Q(builtin=True) | build_reach_filter(scope))
    roles = roles.select_related("scope").annotate(permission_count=Count("permissions"))
    return roles.filter(builtin=name == "built-in") if name else roles


def count_assignments(principal: Principal, roles: Sequence[Role]) -> dict[int, int]:
    """Return the number of visible assignments by role; one query."""
    rows = RoleAssignment.objects.filter(role__in=[role.pk for role in roles])
    grouped = filter_visible(principal, VIEW_USERS, rows).order_by().values_list("role")
    return dict(grouped.annotate(count=Count("pk")))


def describe_permissions(permissions: Collection[str]) -> list[ResourcePermissions]:
    """Return the permissions of each type of resource, in the order of the catalog."""
    return [
        ResourcePermissions(
            resource.title,
            [item.title for item in resource.permissions if item.identifier in permissions],
            [item.title for item in resource.permissions if item.identifier not in permissions],
        )
        for resource in RESOURCE_TYPES
    ]
