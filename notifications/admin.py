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
    """Who is told of what; never the whole address, and never the secret."""

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
    """What was told, and what came of it."""

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
