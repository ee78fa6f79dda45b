"""Service accounts in the admin site."""

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.models import ServiceAccount


@admin.register(ServiceAccount)
class ServiceAccountAdmin(PolicyAdmin):
    """Programs with roles of their own; deleting one revokes its keys and removes its roles."""

    view_permission = "core_serviceaccount_view"
    add_permission = change_permission = "core_serviceaccount_edit"
    delete_permission = "core_serviceaccount_delete"
    list_display = ("name", "identifier", "scope", "user", "created_at")
    list_select_related = ("scope", "user")
    search_fields = ("name", "identifier", "user__username")
    ordering = ("name",)

    def get_fields(self, request: HttpRequest, obj: ServiceAccount | None = None) -> tuple[str, ...]:
        fields = ("scope", "identifier", "name", "description")
        return (*fields, "user", "created_at") if obj else fields

    def get_readonly_fields(self, request: HttpRequest, obj: ServiceAccount | None = None) -> tuple[str, ...]:
        return ("scope", "identifier", "user", "created_at") if obj else ()

    def save_model(
        self,
        request: HttpRequest,
        obj: ServiceAccount,
        form: "forms.ModelForm[ServiceAccount]",
        change: bool,
    ) -> None:
        actor, named = get_principal(request), {"name": obj.name, "description": obj.description}
        if change:
            operations.update_service_account(actor=actor, account=obj, **named)
            return
        made = operations.create_service_account(
            actor=actor, scope=obj.scope, identifier=obj.identifier, **named
        )
        obj.pk, obj.user = made.pk, made.user

    def delete_model(self, request: HttpRequest, obj: ServiceAccount) -> None:
        operations.delete_service_account(actor=get_principal(request), account=obj)
