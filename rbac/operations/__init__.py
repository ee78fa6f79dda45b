"""Operations on scopes, roles, principals and API keys, shared by pages, API and admin site."""

from rbac.operations.api_keys import create_api_key, revoke_api_key, rotate_api_key
from rbac.operations.invitations import (
    accept_invitation,
    create_invitation,
    create_user_from_invitation,
    renew_invitation,
    revoke_invitation,
)
from rbac.operations.resource_groups import (
    add_resource_group_entries,
    create_resource_group,
    delete_resource_group,
    remove_resource_group_entry,
    update_resource_group,
)
from rbac.operations.roles import assign_role, create_role, delete_role, remove_assignment, update_role
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
from rbac.operations.user_groups import (
    add_group_members,
    create_user_group,
    delete_user_group,
    remove_group_member,
    update_user_group,
)
from rbac.operations.users import set_user_active

__all__ = [
    "accept_invitation",
    "add_group_members",
    "add_resource_group_entries",
    "archive_scope",
    "assign_role",
    "create_api_key",
    "create_invitation",
    "create_organization",
    "create_project",
    "create_resource_group",
    "create_role",
    "create_service_account",
    "create_user_from_invitation",
    "create_user_group",
    "delete_resource_group",
    "delete_role",
    "delete_service_account",
    "delete_user_group",
    "remove_assignment",
    "remove_group_member",
    "remove_resource_group_entry",
    "rename_scope",
    "renew_invitation",
    "restore_scope",
    "revoke_api_key",
    "revoke_invitation",
    "rotate_api_key",
    "set_user_active",
    "update_resource_group",
    "update_role",
    "update_service_account",
    "update_user_group",
]
