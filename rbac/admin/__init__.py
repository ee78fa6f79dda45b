"""Admin site of access control."""

from django.contrib import admin
from django.contrib.auth.models import Group

from rbac.admin.api_keys import ApiKeyAdmin
from rbac.admin.assignments import RoleAssignmentAdmin
from rbac.admin.audit_entries import AuditEntryAdmin
from rbac.admin.resource_groups import ResourceGroupAdmin
from rbac.admin.roles import RoleAdmin
from rbac.admin.scopes import ScopeAdmin
from rbac.admin.service_accounts import ServiceAccountAdmin
from rbac.admin.user_groups import UserGroupAdmin
from rbac.admin.users import UserAdmin

__all__ = [
    "ApiKeyAdmin",
    "AuditEntryAdmin",
    "ResourceGroupAdmin",
    "RoleAdmin",
    "RoleAssignmentAdmin",
    "ScopeAdmin",
    "ServiceAccountAdmin",
    "UserAdmin",
    "UserGroupAdmin",
]


admin.site.site_header = admin.site.site_title = "Slipway administration"
admin.site.index_title = "Access"
admin.site.unregister(Group)
