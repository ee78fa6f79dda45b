"""The audit trail in the admin site."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from rbac.gated_admin import GatedAdmin, principal_of
from rbac.models import AuditEntry, Scope, User
from rbac.policy import can, scopes_where


class CameBy(admin.SimpleListFilter):
    """Which way a change came; named here, for to find out would be to read the whole trail."""

    title = "source"
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in ("page", "api", "admin", "agent", "internal")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        return queryset.filter(source=self.value()) if self.value() else queryset


@admin.register(AuditEntry)
class AuditEntryAdmin(GatedAdmin):
    """What was done, to be read only."""

    view_permission = "core_audit_view"
    list_display = ("at", "actor_name", "action", "thing_type", "thing_name", "scope", "source", "address")
    list_select_related = ("scope",)
    list_filter = ("at", CameBy)
    search_fields = ("actor_name", "action", "thing_name", "request_id")
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        principal = principal_of(request)
        # Asked first, as in `visible_below`: a planner has to know how many rows to expect.
        scopes = dict(scopes_where(principal, self.view_permission).values_list("pk", "kind"))
        # Sign-ins and the like belong to the account.
        unscoped = Q(scope__isnull=True) if Scope.Kind.ACCOUNT in scopes.values() else Q(pk__in=[])
        return AuditEntry.objects.filter(Q(scope__in=list(scopes)) | unscoped)

    def _may_on(self, principal: User, permission: str, obj: AuditEntry) -> bool:
        return can(principal, permission, obj.scope or Scope.objects.account())
