"""Roles in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.admin.permission_table import PermissionTable, build_role_permissions_field
from rbac.models import Role, User
from rbac.permissions import ALWAYS_GRANTED
from rbac.policy import can, can_anywhere, list_permitted_scopes


class RoleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A role with its permissions."""

    granted = build_role_permissions_field()

    class Meta:
        model = Role
        fields = ("scope", "identifier", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["granted"] = list(self.instance.permissions.values_list("permission", flat=True))
        if "scope" in self.fields:
            self.fields["scope"].required = True


@admin.register(Role)
class RoleAdmin(PolicyAdmin):
    """Roles; the built-in ones can be read only."""

    view_permission = "core_role_view"
    add_permission = change_permission = "core_role_edit"
    delete_permission = "core_role_delete"
    form = RoleForm
    fields = ("scope", "identifier", "name", "granted")
    list_display = ("name", "identifier", "scope", "builtin")
    list_select_related = ("scope",)
    search_fields = ("name", "identifier")
    ordering = ("-builtin", "name")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Role]:
        scopes = list_permitted_scopes(get_principal(request), self.view_permission)
        return Role.objects.filter(Q(builtin=True) | Q(scope__in=scopes.values("pk")))

    def get_fields(self, request: HttpRequest, obj: Role | None = None) -> tuple[str, ...]:
        return ("name", "identifier", "permission_list") if obj and obj.builtin else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Role | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        return ("scope", "identifier", "permission_list")

    @admin.display(description="Permissions")
    def permission_list(self, obj: Role) -> SafeString:
        granted = obj.permissions.values_list("permission", flat=True)
        return PermissionTable(read_only=True).render("permission_list", granted)

    def _has_row_permission(self, principal: User, permission: str, obj: Role) -> bool:
        if obj.scope is None:
            return permission == self.view_permission and can_anywhere(principal, permission)
        return can(principal, permission, obj.scope)

    def save_model(
        self, request: HttpRequest, obj: Role, form: "forms.ModelForm[Role]", change: bool
    ) -> None:
        actor, granted = get_principal(request), form.cleaned_data["granted"]
        if change:
            operations.update_role(
                actor=actor, role=obj, name=obj.name, permissions={*granted, ALWAYS_GRANTED}
            )
            return
        if obj.scope is None:
            raise TypeError("The form demands a scope.")
        made = operations.create_role(
            actor=actor, scope=obj.scope, identifier=obj.identifier, name=obj.name, permissions=granted
        )
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Role) -> None:
        operations.delete_role(actor=get_principal(request), role=obj)
