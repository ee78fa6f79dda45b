"""Audit entries in the admin site."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from rbac.admin.base import PolicyAdmin, get_principal
from rbac.models import AuditEntry, Scope, User
from rbac.policy import can, list_permitted_scopes


class SourceFilter(admin.SimpleListFilter):
    """Filter by the source of a change; a query for the sources would read the whole trail."""

    title = "source"
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in ("page", "api", "admin", "agent", "git", "internal")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(source=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(PolicyAdmin):
    """Read-only admin list of the audit trail."""

    view_permission = "core_audit_view"
    list_display = ("at", "actor_name", "action", "thing_type", "thing_name", "scope", "source", "address")
    list_select_related = ("scope",)
    list_filter = ("at", SourceFilter)
    product_page = "audit-entry"
    search_help_text = "User, action, name or request"
    search_fields = ("actor_name", "action", "thing_name", "request_id")
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        principal = get_principal(request)
        # By keys, as in `filter_visible`: a query planner needs the expected rows.
        scopes = dict(list_permitted_scopes(principal, self.view_permission).values_list("pk", "kind"))
        # Sign-ins and the like belong to the account.
        unscoped = Q(scope__isnull=True) if Scope.Kind.ACCOUNT in scopes.values() else Q(pk__in=[])
        return AuditEntry.objects.filter(Q(scope__in=list(scopes)) | unscoped)

    def _has_row_permission(self, principal: User, permission: str, obj: AuditEntry) -> bool:
        return can(principal, permission, obj.scope or Scope.objects.account())
