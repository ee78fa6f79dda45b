"""The tables of access, one file per noun."""

from rbac.models.api_key import ApiKey
from rbac.models.assignment import RoleAssignment
from rbac.models.audit import AuditEntry
from rbac.models.role import Role, RolePermission
from rbac.models.scope import Scope
from rbac.models.user import User, UserGroup

__all__ = ["ApiKey", "AuditEntry", "Role", "RoleAssignment", "RolePermission", "Scope", "User", "UserGroup"]
