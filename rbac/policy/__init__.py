"""Authorization policy of all pages, API views, sockets and admin forms."""

from rbac.policy.checks import (
    Forbidden,
    NotVisible,
    can,
    can_anywhere,
    filter_visible,
    get_permissions,
    get_permissions_anywhere,
    get_permissions_over_scope,
    list_member_scopes,
    list_permitted_scopes,
    require,
)
from rbac.policy.explanations import PermissionVerdict, explain_permissions
from rbac.policy.grants import Grants, ResourceLocation, cache_permissions, get_resource_locations
from rbac.policy.holders import PermissionHolder, list_permission_holders
from rbac.policy.principals import Principal, is_allowed_by_key
from rbac.policy.resources import HasScope
from rbac.policy.scope_tree import (
    build_below_filter,
    build_not_archived_filter,
    find_archived_scope,
    get_nearest_active_scope,
    get_scope_lineages,
)

__all__ = [
    "Forbidden",
    "Grants",
    "HasScope",
    "NotVisible",
    "PermissionHolder",
    "PermissionVerdict",
    "Principal",
    "ResourceLocation",
    "build_below_filter",
    "build_not_archived_filter",
    "cache_permissions",
    "can",
    "can_anywhere",
    "explain_permissions",
    "filter_visible",
    "find_archived_scope",
    "get_nearest_active_scope",
    "get_permissions",
    "get_permissions_anywhere",
    "get_permissions_over_scope",
    "get_resource_locations",
    "get_scope_lineages",
    "is_allowed_by_key",
    "list_member_scopes",
    "list_permission_holders",
    "list_permitted_scopes",
    "require",
]
