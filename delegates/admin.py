"""Read-only admin pages of delegates, tokens, configurations, instances and events."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from connectors.admin import ReadOnlyAdmin
from delegates.models import Delegate, DelegateConfiguration, DelegateEvent, DelegateInstance, DelegateToken


@admin.register(DelegateToken)
class DelegateTokenAdmin(ReadOnlyAdmin):
    """Admin list of tokens with creator and revoker."""

    permission = "core_delegate_view"
    list_display = ("name", "prefix", "scope", "status", "last_used_at", "created_by")
    list_select_related = ("scope", "created_by")
    list_filter = ("status",)
    fields = (
        "scope",
        "name",
        "prefix",
        "status",
        "created_by",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_by",
        "revoked_at",
    )
    search_fields = ("name", "prefix")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("value")


@admin.register(DelegateConfiguration)
class DelegateConfigurationAdmin(ReadOnlyAdmin):
    """Admin list of delegate configurations."""

    permission = "core_delegateconfiguration_view"
    list_display = ("identifier", "name", "scope", "requires_approval", "is_primary", "updated_at")
    list_filter = ("requires_approval",)
    search_fields = ("identifier", "name")


@admin.register(Delegate)
class DelegateAdmin(ReadOnlyAdmin):
    """Admin list of delegates; their pages contain the actions."""

    permission = "core_delegate_view"
    list_display = ("name", "scope", "kind", "admission", "draining", "is_built_in", "updated_at")
    list_filter = ("kind", "admission")
    fields = (
        "scope",
        "name",
        "description",
        "kind",
        "flavour",
        "size",
        "tags",
        "configuration",
        "admission",
        "draining",
        "is_built_in",
        "spec",
        "aws_account",
        "created_by",
        "created_at",
        "updated_at",
    )
    search_fields = ("name",)


@admin.register(DelegateInstance)
class DelegateInstanceAdmin(ReadOnlyAdmin):
    """Admin list of registered processes, without their sessions."""

    permission = "core_delegate_view"
    list_display = ("hostname", "delegate", "status", "connection", "version", "last_heartbeat_at")
    list_select_related = ("delegate__scope",)
    list_filter = ("status", "connection")
    fields = (
        "delegate",
        "key",
        "public_key",
        "hostname",
        "private_ip",
        "version",
        "flavour",
        "tags",
        "capacity",
        "connection",
        "status",
        "suspect_since",
        "last_heartbeat_at",
        "registered_at",
        "running",
        "ecs",
        "clock_skew_seconds",
    )
    search_fields = ("hostname", "key")


@admin.register(DelegateEvent)
class DelegateEventAdmin(ReadOnlyAdmin):
    """Admin list of delegate events, including events of deleted delegates."""

    permission = "core_delegate_view"
    list_display = ("at", "name", "kind", "text", "address", "scope")
    list_filter = ("at", "kind")
    search_fields = ("name",)
