"""Authorization policy of all pages, API views, sockets and admin forms."""

from rbac.policy.checks import (
    Forbidden,
    NotVisible,
    can,
    can_anywhere,
    filter_visible,
    filter_visible_below,
    require,
)
from rbac.policy.explanations import PermissionVerdict, explain_permissions
from rbac.policy.grants import Grants, ResourceLocation, get_resource_locations, get_scope_ancestors
from rbac.policy.permission_sets import get_permissions, get_permissions_anywhere, get_permissions_over_scope
from rbac.policy.principals import Principal, is_allowed_by_key
from rbac.policy.request_cache import cache_permissions
from rbac.policy.resources import HasScope
from rbac.policy.scope_filters import list_member_scopes, list_permitted_scopes
from rbac.policy.scope_tree import build_below_filter, build_not_archived_filter

__all__ = [
    "Forbidden",
    "Grants",
    "HasScope",
    "NotVisible",
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
    "filter_visible_below",
    "get_permissions",
    "get_permissions_anywhere",
    "get_permissions_over_scope",
    "get_resource_locations",
    "get_scope_ancestors",
    "is_allowed_by_key",
    "list_member_scopes",
    "list_permitted_scopes",
    "require",
]
