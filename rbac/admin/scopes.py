"""The tree of scopes in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey
from django.forms import ModelChoiceField
from django.http import HttpRequest

from rbac import operations
from rbac.gated_admin import GatedAdmin, principal_of
from rbac.models import Scope
from rbac.policy import scopes_where


@admin.register(Scope)
class ScopeAdmin(GatedAdmin):
    """The account, its organizations and their projects."""

    view_permission = "core_organization_view"
    add_permission = "core_project_edit"
    change_permission = "core_project_edit"
    fields = ("parent", "identifier", "name")
    list_display = ("path", "kind", "name", "created_at")
    list_filter = ("kind",)
    search_fields = ("path", "name")
    ordering = ("path",)

    def get_readonly_fields(self, request: HttpRequest, obj: Scope | None = None) -> tuple[str, ...]:
        return ("parent", "identifier") if obj else ()

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        above = scopes_where(principal_of(request), self.add_permission).exclude(kind=Scope.Kind.PROJECT)
        field = super().formfield_for_foreignkey(db_field, request, queryset=above.order_by("path"), **kwargs)
        if field is not None:
            field.required = True
        return field

    def save_model(
        self, request: HttpRequest, obj: Scope, form: "forms.ModelForm[Scope]", change: bool
    ) -> None:
        actor = principal_of(request)
        if change:
            operations.rename_scope(actor=actor, scope=obj, name=obj.name)
        elif obj.parent is not None and obj.parent.kind == Scope.Kind.ORGANIZATION:
            made = operations.create_project(
                actor=actor, organization=obj.parent, identifier=obj.identifier, name=obj.name
            )
            obj.pk = made.pk
        else:
            made = operations.create_organization(actor=actor, identifier=obj.identifier, name=obj.name)
            obj.pk = made.pk
