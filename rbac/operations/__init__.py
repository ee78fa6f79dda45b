"""What a person can do to scopes, roles, principals and keys; page, API and admin site all call these."""

from rbac.operations.assignments import assign_role, remove_assignment
from rbac.operations.invitations import (
    accept_invitation,
    invite,
    join,
    renew_invitation,
    revoke_invitation,
)
from rbac.operations.keys import create_api_key, revoke_api_key, rotate_api_key
from rbac.operations.resource_groups import (
    create_resource_group,
    delete_resource_group,
    update_resource_group,
)
from rbac.operations.roles import create_role, delete_role, update_role
from rbac.operations.scopes import (
    archive_scope,
    create_organization,
    create_project,
    rename_scope,
    restore_scope,
)
from rbac.operations.service_accounts import (
    create_service_account,
    delete_service_account,
    update_service_account,
)
from rbac.operations.user_groups import create_user_group, delete_user_group, update_user_group

__all__ = [
    "accept_invitation",
    "invite",
    "join",
    "renew_invitation",
    "revoke_invitation",
    "archive_scope",
    "assign_role",
    "create_api_key",
    "create_organization",
    "create_project",
    "create_resource_group",
    "create_role",
    "create_service_account",
    "create_user_group",
    "delete_resource_group",
    "delete_role",
    "delete_service_account",
    "delete_user_group",
    "remove_assignment",
    "rename_scope",
    "restore_scope",
    "revoke_api_key",
    "rotate_api_key",
    "update_resource_group",
    "update_role",
    "update_service_account",
    "update_user_group",
]
