"""The catalogue of permissions and the built-in roles, as data: a new right is one more row."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Permission:
    """One right: an action on a kind of resource."""

    identifier: str
    resource: str
    action: str

    @property
    def title(self) -> str:
        return ACTION_TITLES.get(self.action, self.action.capitalize())


@dataclass(frozen=True)
class Resource:
    """A kind of thing that permissions speak of, with its heading in the admin site."""

    identifier: str
    title: str
    actions: tuple[str, ...]

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return tuple(Permission(f"core_{self.identifier}_{a}", self.identifier, a) for a in self.actions)


ACTION_TITLES = {"edit": "Create/Edit", "manageapikey": "Manage API keys"}

# The identifiers are a published interface (REQUIREMENTS 4.2): never rename one.
RESOURCES: tuple[Resource, ...] = (
    Resource("account", "Account", ("view", "edit")),
    Resource("organization", "Organizations", ("view", "edit", "delete")),
    Resource("project", "Projects", ("view", "edit", "delete")),
    Resource("delegate", "Delegates", ("view", "edit", "delete")),
    Resource("delegateconfiguration", "Delegate configurations", ("view", "edit", "delete")),
    Resource("pipeline", "Pipelines", ("view", "edit", "delete", "execute", "abort")),
    Resource("inputset", "Input sets", ("view", "edit", "delete")),
    Resource("template", "Templates", ("view", "edit", "delete", "access")),
    Resource("service", "Services", ("view", "edit", "delete", "access")),
    Resource("environment", "Environments", ("view", "edit", "delete", "access", "rollback")),
    Resource("environmentgroup", "Environment groups", ("view", "edit", "delete", "access")),
    Resource("connector", "Connectors", ("view", "edit", "delete", "access")),
    Resource("secret", "Secrets", ("view", "edit", "delete", "access")),
    Resource("file", "Files", ("view", "edit", "delete", "access")),
    Resource("notificationrule", "Notification rules", ("view", "edit", "delete")),
    Resource("variable", "Variables", ("view", "edit", "delete", "access")),
    Resource("role", "Roles", ("view", "edit", "delete")),
    Resource("resourcegroup", "Resource groups", ("view", "edit", "delete")),
    Resource("user", "Users", ("view", "manage")),
    Resource("usergroup", "User groups", ("view", "manage")),
    Resource("serviceaccount", "Service accounts", ("view", "edit", "delete", "manageapikey")),
    Resource("deploymentfreeze", "Deployment freeze", ("manage", "override", "global")),
    Resource("audit", "Audit trail", ("view",)),
)

PERMISSIONS: dict[str, Permission] = {p.identifier: p for r in RESOURCES for p in r.permissions}
IDENTIFIERS = tuple(sorted(PERMISSIONS))

# Every member of a scope may see its delegates, whatever the roles say (R080).
ALWAYS_GRANTED = "core_delegate_view"

# What is kept above and used below: who may view such things in a scope also sees those of the scopes above.
SHARED_KINDS = (
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
SHARED_VIEWS = frozenset(f"core_{kind}_view" for kind in SHARED_KINDS)


@dataclass(frozen=True)
class BuiltinRole:
    """A role that every installation has and nobody can change."""

    identifier: str
    name: str
    permissions: frozenset[str]


def view_permission(permission: str) -> str:
    """Return the permission to see what `permission` acts on, or itself where there is none to see it."""
    view = f"core_{PERMISSIONS[permission].resource}_view"
    return view if view in PERMISSIONS else permission


def _of(resources: Iterable[str], actions: Iterable[str] | None = None) -> frozenset[str]:
    wanted = set(resources)
    allowed = None if actions is None else set(actions)
    return frozenset(
        p.identifier
        for p in PERMISSIONS.values()
        if p.resource in wanted and (allowed is None or p.action in allowed)
    )


_EVERYTHING = frozenset(PERMISSIONS)
_ACCOUNT_ONLY = {"core_account_edit", "core_deploymentfreeze_global"}
_ORGANIZATION_ONLY = {"core_organization_edit", "core_organization_delete", "core_project_delete"}
_VIEWS = frozenset(p for p in PERMISSIONS if p.endswith("_view") and p != "core_audit_view")
_USED_BY_PIPELINES = ("service", "environment", "environmentgroup", "connector", "secret", "file", "variable")

BUILTIN_ROLES: tuple[BuiltinRole, ...] = (
    BuiltinRole("account_admin", "Account Admin", _EVERYTHING),
    BuiltinRole("organization_admin", "Organization Admin", _EVERYTHING - _ACCOUNT_ONLY),
    BuiltinRole("project_admin", "Project Admin", _EVERYTHING - _ACCOUNT_ONLY - _ORGANIZATION_ONLY),
    BuiltinRole(
        "pipeline_executor",
        "Pipeline Executor",
        _of(("account", "organization", "project", "delegate", "inputset", "template"), ("view", "access"))
        | _of(_USED_BY_PIPELINES, ("view", "access", "rollback"))
        | _of(("pipeline",), ("view", "execute", "abort")),
    ),
    BuiltinRole("viewer", "Viewer", _VIEWS),
    BuiltinRole(
        "delegate_manager",
        "Delegate Manager",
        _of(("delegate", "delegateconfiguration")) | _of(("account", "organization", "project"), ("view",)),
    ),
)
