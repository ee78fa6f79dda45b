"""Reference pages of permissions and built-in roles."""

from collections.abc import Iterator

from ops.documentation.markdown import Page, code, table
from rbac.permissions import (
    ALWAYS_GRANTED,
    BUILTIN_ROLES,
    PERMISSIONS,
    RESOURCE_TYPES,
    SHARED_RESOURCES,
    Permission,
    ResourceType,
)


def generate() -> Iterator[Page]:
    """Yield the page of permissions and the page of roles."""
    yield Page("reference/permissions.md", "Permissions", tuple(_build_permission_parts()))
    yield Page("reference/roles.md", "Built-in roles", tuple(_build_role_parts()))


def _build_permission_parts() -> Iterator[str]:
    yield (
        "A permission is the right to take one action on one kind of resource. Roles hold permissions, and "
        "a role is assigned at a scope: it counts there and in every scope below. What no role grants is "
        "denied."
    )
    yield (
        f"{code(ALWAYS_GRANTED)} is part of every role. Who may view one of these kinds in a project also "
        f"sees those of its organization and account: {', '.join(map(_build_title, SHARED_RESOURCES))}."
    )
    for resource in RESOURCE_TYPES:
        yield f"## {resource.title}"
        rows = [
            (code(permission.identifier), permission.title, _list_holders(permission))
            for permission in resource.permissions
        ]
        yield table(("Permission", "Action", "Built-in roles that have it"), rows)


def _build_title(kind: str) -> str:
    return next(resource.title.lower() for resource in RESOURCE_TYPES if resource.identifier == kind)


def _list_holders(permission: Permission) -> str:
    return ", ".join(role.name for role in BUILTIN_ROLES if permission.identifier in role.permissions)


def _build_role_parts() -> Iterator[str]:
    yield (
        "Every installation has these roles, and nobody can change them. Make roles of your own where none "
        "of them fits: [Grant access](../how-to/grant-access.md)."
    )
    rows = [
        (role.name, code(role.identifier), f"{len(role.permissions)} of {len(PERMISSIONS)}")
        for role in BUILTIN_ROLES
    ]
    yield table(("Role", "Identifier", "Permissions"), rows)
    for role in BUILTIN_ROLES:
        yield f"## {role.name}"
        actions = ((resource, _list_actions(resource, role.permissions)) for resource in RESOURCE_TYPES)
        yield table(
            ("Resource", "Actions"), [(resource.title, granted) for resource, granted in actions if granted]
        )


def _list_actions(resource: ResourceType, granted: frozenset[str]) -> str:
    return ", ".join(
        permission.title for permission in resource.permissions if permission.identifier in granted
    )
