"""What a person can do to scopes, roles and assignments; page, API and admin site all call these."""

from rbac.operations.assignments import assign_role, remove_assignment
from rbac.operations.roles import create_role, delete_role, update_role
from rbac.operations.scopes import (
    archive_scope,
    create_organization,
    create_project,
    rename_scope,
    restore_scope,
)

__all__ = [
    "archive_scope",
    "assign_role",
    "create_organization",
    "create_project",
    "create_role",
    "delete_role",
    "remove_assignment",
    "rename_scope",
    "restore_scope",
    "update_role",
]
