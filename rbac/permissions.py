"""Catalog of permissions and built-in roles."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.apps import apps as installed_apps
from django.apps.registry import Apps
from django.db import transaction


@dataclass(frozen=True)
class Permission:
    """One right: an action on a kind of resource."""

    identifier: str
    resource: str
    action: str

    @property
    def title(self) -> str:
        return ACTION_TITLES.get(self.action, self.action.capitalize())

    @property
    def verb(self) -> str:
        """Return the action in words, such as "create and edit"."""
        return ACTION_VERBS.get(self.action, self.action)

    @property
    def words(self) -> str:
        """Return the permission in words, such as "create and edit pipelines"."""
        title = RESOURCE_TITLES[self.resource]
        return f"{self.verb} {title[0].lower()}{title[1:]}"


@dataclass(frozen=True)
class ResourceType:
    """A kind of thing that permissions speak of, with its heading in the admin site."""

    identifier: str
    title: str
    actions: tuple[str, ...]

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return tuple(Permission(f"core_{self.identifier}_{a}", self.identifier, a) for a in self.actions)


ACTION_TITLES = {"edit": "Create/Edit", "manageapikey": "Manage API keys"}
ACTION_VERBS = {
    "edit": "create and edit",
    "access": "use",
    "execute": "run",
    "abort": "abort runs of",
    "rollback": "roll back deployments in",
    "manageapikey": "manage API keys of",
    "global": "manage account-wide",
}

# The identifiers are a published interface (REQUIREMENTS 4.2): never rename one.
RESOURCE_TYPES: tuple[ResourceType, ...] = (
    ResourceType("account", "Account", ("view", "edit")),
    ResourceType("organization", "Organizations", ("view", "edit", "delete")),
    ResourceType("project", "Projects", ("view", "edit", "delete")),
    ResourceType("delegate", "Delegates", ("view", "edit", "delete")),
    ResourceType("delegateconfiguration", "Delegate configurations", ("view", "edit", "delete")),
    ResourceType("pipeline", "Pipelines", ("view", "edit", "delete", "execute", "abort")),
    ResourceType("inputset", "Input sets", ("view", "edit", "delete")),
    ResourceType("template", "Templates", ("view", "edit", "delete", "access")),
    ResourceType("service", "Services", ("view", "edit", "delete", "access")),
    ResourceType("environment", "Environments", ("view", "edit", "delete", "access", "rollback")),
    ResourceType("environmentgroup", "Environment groups", ("view", "edit", "delete", "access")),
    ResourceType("connector", "Connectors", ("view", "edit", "delete", "access")),
    ResourceType("secret", "Secrets", ("view", "edit", "delete", "access")),
    ResourceType("file", "Files", ("view", "edit", "delete", "access")),
    ResourceType("notificationrule", "Notification rules", ("view", "edit", "delete")),
    ResourceType("policyrule", "Policy rules", ("view", "edit", "delete")),
    ResourceType("gitsync", "Git syncs", ("view", "edit", "delete")),
    ResourceType("variable", "Variables", ("view", "edit", "delete", "access")),
    ResourceType("role", "Roles", ("view", "edit", "delete")),
    ResourceType("resourcegroup", "Resource groups", ("view", "edit", "delete")),
    ResourceType("user", "Users", ("view", "manage")),
    ResourceType("usergroup", "User groups", ("view", "manage")),
    ResourceType("serviceaccount", "Service accounts", ("view", "edit", "delete", "manageapikey")),
    ResourceType("deploymentfreeze", "Deployment freeze", ("manage", "override", "global")),
    ResourceType("audit", "Audit trail", ("view",)),
)

RESOURCE_TITLES = {resource.identifier: resource.title for resource in RESOURCE_TYPES}
PERMISSIONS: dict[str, Permission] = {p.identifier: p for r in RESOURCE_TYPES for p in r.permissions}
PERMISSION_IDENTIFIERS = tuple(sorted(PERMISSIONS))

# Every member of a scope may view its delegates with any role (R080).
ALWAYS_GRANTED = "core_delegate_view"

# Resources that scopes below use: users who may view them in a scope also view those of the scopes above.
SHARED_RESOURCES = (
    "connector",
    "delegate",
    "delegateconfiguration",
    "environment",
    "file",
    "secret",
    "service",
    "template",
    "variable",
)
SHARED_VIEW_PERMISSIONS = frozenset(f"core_{kind}_view" for kind in SHARED_RESOURCES)


@dataclass(frozen=True)
class BuiltinRole:
    """Role of every installation that nobody can change."""

    identifier: str
    name: str
    permissions: frozenset[str]


def get_view_permission(permission: str) -> str:
    """Return the view permission for the resources of `permission`, or `permission` itself."""
    view = f"core_{PERMISSIONS[permission].resource}_view"
    return view if view in PERMISSIONS else permission


def _select_permissions(resources: Iterable[str], actions: Iterable[str] | None = None) -> frozenset[str]:
    resource_set = set(resources)
    allowed = None if actions is None else set(actions)
    return frozenset(
        p.identifier
        for p in PERMISSIONS.values()
        if p.resource in resource_set and (allowed is None or p.action in allowed)
    )


_ALL_PERMISSIONS = frozenset(PERMISSIONS)
_ACCOUNT_ONLY = {"core_account_edit", "core_deploymentfreeze_global"}
_ORGANIZATION_ONLY = {"core_organization_edit", "core_organization_delete", "core_project_delete"}
_VIEW_PERMISSIONS = frozenset(p for p in PERMISSIONS if p.endswith("_view") and p != "core_audit_view")
_PIPELINE_RESOURCES = (
    "service",
    "environment",
    "environmentgroup",
    "connector",
    "secret",
    "file",
    "variable",
)

BUILTIN_ROLES: tuple[BuiltinRole, ...] = (
    BuiltinRole("account_admin", "Account Admin", _ALL_PERMISSIONS),
    BuiltinRole("organization_admin", "Organization Admin", _ALL_PERMISSIONS - _ACCOUNT_ONLY),
    BuiltinRole("project_admin", "Project Admin", _ALL_PERMISSIONS - _ACCOUNT_ONLY - _ORGANIZATION_ONLY),
    BuiltinRole(
        "pipeline_executor",
        "Pipeline Executor",
        _select_permissions(
            ("account", "organization", "project", "delegate", "inputset", "template"), ("view", "access")
        )
        | _select_permissions(_PIPELINE_RESOURCES, ("view", "access", "rollback"))
        | _select_permissions(("pipeline",), ("view", "execute", "abort")),
    ),
    BuiltinRole("viewer", "Viewer", _VIEW_PERMISSIONS),
    BuiltinRole(
        "delegate_manager",
        "Delegate Manager",
        _select_permissions(("delegate", "delegateconfiguration"))
        | _select_permissions(("account", "organization", "project"), ("view",)),
    ),
)


@transaction.atomic
def ensure_builtin_roles(apps: Apps = installed_apps) -> None:
    """Create or correct the account scope and the built-in roles; safe to run again.

    A migration passes its own `apps`, hence only plain rows are written here.
    """
    scopes, roles = apps.get_model("rbac", "Scope"), apps.get_model("rbac", "Role")
    granted = apps.get_model("rbac", "RolePermission")
    scopes.objects.get_or_create(
        path="account", defaults={"kind": "ACCOUNT", "identifier": "account", "name": "Account"}
    )
    for builtin in BUILTIN_ROLES:
        role, _ = roles.objects.update_or_create(
            identifier=builtin.identifier, scope=None, defaults={"name": builtin.name, "builtin": True}
        )
        present = set(granted.objects.filter(role=role).values_list("permission", flat=True))
        granted.objects.filter(role=role, permission__in=present - builtin.permissions).delete()
        granted.objects.bulk_create(
            [granted(role=role, permission=p) for p in sorted(builtin.permissions - present)],
            ignore_conflicts=True,
        )
