"""Groups of people in the admin site."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from rbac import audit
from rbac.gated_admin import GatedAdmin, principal_of
from rbac.models import UserGroup


@admin.register(UserGroup)
class UserGroupAdmin(GatedAdmin):
    """Groups of people."""

    view_permission = "core_usergroup_view"
    add_permission = change_permission = delete_permission = "core_usergroup_manage"
    list_display = ("name", "identifier", "scope")
    list_select_related = ("scope",)
    filter_horizontal = ("users",)
    search_fields = ("name", "identifier")
    ordering = ("name",)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        before = sorted(form.instance.users.values_list("username", flat=True))
        super().save_related(request, form, formsets, change)
        audit.record(
            actor=principal_of(request),
            action="usergroup.update" if change else "usergroup.create",
            thing=form.instance,
            before={"users": before},
            after={"users": sorted(form.instance.users.values_list("username", flat=True))},
            source="admin",
        )

    def delete_model(self, request: HttpRequest, obj: UserGroup) -> None:
        audit.record(actor=principal_of(request), action="usergroup.delete", thing=obj, source="admin")
        obj.delete()
