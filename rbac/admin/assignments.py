"""Role assignments in the admin site."""

from typing import Any, Final

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.models import RoleAssignment

_ASSIGNMENT_FIELDS: Final = ("scope", "role", "user", "group", "resource_group")


class RoleAssignmentForm(forms.ModelForm):  # type: ignore[type-arg]
    """Says in words what the table refuses."""

    class Meta:
        model = RoleAssignment
        fields = (*_ASSIGNMENT_FIELDS, "expires_at")

    def clean(self) -> dict[str, Any]:
        """Refuse what is for nobody or for two, and what is given already."""
        given = super().clean() or {}
        user, group = given.get("user"), given.get("group")
        if {"user", "group"} <= given.keys() and (user is None) == (group is None):
            self.add_error("user", "Choose one user or one group.")
        elif RoleAssignment.objects.filter(**{name: given.get(name) for name in _ASSIGNMENT_FIELDS}).exists():
            self.add_error("role", f"{user or group} has this role there already.")
        return given


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(PolicyAdmin):
    """Who has which role where; an assignment is added or removed, never changed."""

    form = RoleAssignmentForm
    view_permission = "core_user_view"
    add_permission = delete_permission = "core_user_manage"
    fields = ("scope", "role", "user", "group", "resource_group", "expires_at")
    list_display = ("user", "group", "role", "scope", "resource_group", "expires_at")
    list_select_related = ("user", "group", "role", "scope", "resource_group")
    list_filter = ("role",)
    search_fields = ("user__username", "group__name", "scope__path")
    ordering = ("-pk",)

    def save_model(
        self, request: HttpRequest, obj: RoleAssignment, form: "forms.ModelForm[RoleAssignment]", change: bool
    ) -> None:
        made = operations.assign_role(
            actor=get_principal(request),
            scope=obj.scope,
            role=obj.role,
            user=obj.user,
            group=obj.group,
            resource_group=obj.resource_group,
            expires_at=obj.expires_at,
        )
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: RoleAssignment) -> None:
        operations.remove_assignment(actor=get_principal(request), assignment=obj)
