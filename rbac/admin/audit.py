"""The audit trail in the admin site."""

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from rbac.gated_admin import GatedAdmin, principal_of
from rbac.models import AuditEntry, Scope, User
from rbac.policy import can, scopes_where


@admin.register(AuditEntry)
class AuditEntryAdmin(GatedAdmin):
    """What was done, to be read only."""

    view_permission = "core_audit_view"
    list_display = ("at", "actor_name", "action", "thing_type", "thing_name", "scope", "source", "address")
    list_select_related = ("scope",)
    list_filter = ("action", "source")
    search_fields = ("actor_name", "thing_name", "request_id")
    date_hierarchy = "at"
    ordering = ("-pk",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        principal = principal_of(request)
        scopes = scopes_where(principal, self.view_permission)
        # Sign-ins and the like belong to the account.
        of_account = scopes.filter(kind=Scope.Kind.ACCOUNT).exists()
        unscoped = Q(scope__isnull=True) if of_account else Q(pk__in=[])
        return AuditEntry.objects.filter(Q(scope__in=scopes.values("pk")) | unscoped)

    def _may_on(self, principal: User, permission: str, obj: AuditEntry) -> bool:
        return can(principal, permission, obj.scope or Scope.objects.account())
