"""Admin site of access control."""

from django.contrib import admin
from django.contrib.auth.models import Group

from rbac.admin.audit_entries import AuditEntryAdmin
from rbac.admin.roles import ResourceGroupAdmin, RoleAdmin, RoleAssignmentAdmin
from rbac.admin.scopes import ScopeAdmin
from rbac.admin.users import ApiKeyAdmin, ServiceAccountAdmin, UserAdmin, UserGroupAdmin

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
