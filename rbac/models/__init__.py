"""Tables of access control."""

from rbac.models.api_keys import ApiKey
from rbac.models.audit_entries import AuditEntry
from rbac.models.invitations import Invitation
from rbac.models.roles import ResourceGroup, ResourceGroupEntry, Role, RoleAssignment, RolePermission
from rbac.models.scopes import Scope
from rbac.models.users import ApiKeyLimits, ServiceAccount, User, UserGroup

__all__ = [
    "ApiKey",
    "ApiKeyLimits",
    "AuditEntry",
    "Invitation",
    "ResourceGroup",
    "ResourceGroupEntry",
    "Role",
    "RoleAssignment",
    "RolePermission",
    "Scope",
    "ServiceAccount",
    "User",
    "UserGroup",
]
