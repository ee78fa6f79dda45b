"""Notification rules and notifications in the admin site, read-only."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from connectors.admin import ReadOnlyAdmin
from notifications.models import Notification, NotificationRule
from notifications.operations import VIEW


@admin.register(NotificationRule)
class NotificationRuleAdmin(ReadOnlyAdmin):
    """Admin list of notification rules, without full address and secret."""

    permission = VIEW
    list_display = ("identifier", "name", "host", "scope", "is_enabled", "failures")
    fields = (
        "scope",
        "identifier",
        "name",
        "kind",
        "events",
        "host",
        "is_signed",
        "is_enabled",
        "failures",
        "paused_until",
        "created_at",
        "updated_at",
    )
    search_fields = ("identifier", "name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("url", "secret")


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    """Admin list of notifications with their delivery results."""

    permission = VIEW
    list_display = ("created_at", "event", "text", "rule", "status", "attempts", "response_status")
    list_select_related = ("rule",)
    fields = (
        "id",
        "rule",
        "event",
        "text",
        "body",
        "status",
        "attempts",
        "response_status",
        "reason",
        "created_at",
        "due_at",
        "ended_at",
    )
