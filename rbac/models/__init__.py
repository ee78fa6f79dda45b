"""The tables of access, one file per noun."""

from rbac.models.api_key import ApiKey
from rbac.models.assignment import RoleAssignment
from rbac.models.audit import AuditEntry
from rbac.models.invitation import Invitation
from rbac.models.key_limits import KeyLimits
from rbac.models.resource_group import ResourceGroup, ResourceGroupEntry
from rbac.models.role import Role, RolePermission
from rbac.models.scope import Scope
from rbac.models.service_account import ServiceAccount
from rbac.models.user import User, UserGroup

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Invitation",
    "KeyLimits",
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
