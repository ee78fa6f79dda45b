"""Read-only admin pages of connectors, event queues, secrets and files."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from connectors.models import Connector, EventQueue, EventQueueSetup, FileNode, Secret
from rbac.admin.base import AllowedFiltersAdmin, has_permission_anywhere
from rbac.policy import filter_visible


class ReadOnlyAdmin(AllowedFiltersAdmin):
    """Read-only admin list and page, limited to rows that the user may view."""

    permission: str
    list_select_related: ClassVar[tuple[str, ...]] = ("scope",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return filter_visible(request.user, self.permission, super().get_queryset(request))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return has_permission_anywhere(request, self.permission)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_permission_anywhere(request, self.permission)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Connector)
class ConnectorAdmin(ReadOnlyAdmin):
    """Admin list of connectors."""

    permission = "core_connector_view"
    list_display = ("identifier", "name", "kind", "scope", "last_test_ok", "last_tested_at")
    search_fields = ("identifier", "name")


@admin.register(EventQueue)
class EventQueueAdmin(ReadOnlyAdmin):
    """Admin list of event queues."""

    permission = "core_connector_view"
    list_display = ("connector", "region", "queue_url", "problem", "read_at", "last_event_at")
    list_select_related = ("connector__scope",)
    search_fields = ("connector__identifier", "queue_url")


@admin.register(EventQueueSetup)
class EventQueueSetupAdmin(ReadOnlyAdmin):
    """Admin list of set-ups of events."""

    permission = "core_connector_view"
    list_display = ("connector", "region", "stack_name", "account", "status", "started_at", "ended_at")
    list_select_related = ("connector__scope",)
    search_fields = ("connector__identifier", "stack_name")
    exclude = ("call_task", "last_task", "answers")


@admin.register(Secret)
class SecretAdmin(ReadOnlyAdmin):
    """Admin list of secrets without values."""

    permission = "core_secret_view"
    list_display = ("identifier", "name", "scope", "updated_at")
    fields = ("scope", "identifier", "name", "created_at", "updated_at")
    search_fields = ("identifier", "name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("value")


@admin.register(FileNode)
class FileNodeAdmin(ReadOnlyAdmin):
    """The file store."""

    permission = "core_file_view"
    list_display = ("path", "scope", "is_folder", "version", "updated_at", "updated_by")
    list_select_related = ("scope", "updated_by")
    search_fields = ("path",)
