"""Tokens and configurations of delegates in the admin site: to be looked at, never what a token is."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from connectors.admin import LookedAt
from delegates.models import DelegateConfiguration, DelegateToken


@admin.register(DelegateToken)
class DelegateTokenAdmin(LookedAt):
    """Which tokens there are, and who made and revoked them."""

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
class DelegateConfigurationAdmin(LookedAt):
    """What delegates share."""

    permission = "core_delegateconfiguration_view"
    list_display = ("identifier", "name", "scope", "requires_approval", "is_primary", "updated_at")
    list_filter = ("requires_approval",)
    search_fields = ("identifier", "name")
