"""The tree of scopes in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey, Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest

from rbac import operations
from rbac.archived import restorable
from rbac.gated_admin import GatedAdmin, principal_of
from rbac.models import Scope, User
from rbac.policy import can, scopes_where
from rbac.scope_form import ScopeForm


@admin.register(Scope)
class ScopeAdmin(GatedAdmin):
    """The account, its organizations and their projects; archived ones for those who may bring them back."""

    form = ScopeForm
    view_permission = "core_organization_view"
    add_permission = "core_project_edit"
    change_permission = "core_project_edit"
    list_display = ("path", "kind", "name", "created_at", "archived_at")
    list_filter = ("kind",)
    search_fields = ("path", "name")
    ordering = ("path",)

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Scope]":
        shown = super().get_queryset(request).values("pk")
        archived = restorable(principal_of(request)).values("pk")
        return Scope.objects.filter(Q(pk__in=shown) | Q(pk__in=archived)).select_related("parent")

    def get_fields(self, request: HttpRequest, obj: Scope | None = None) -> Any:
        fields = ["parent", "identifier", "name"]
        return [*fields, "archived"] if obj and _may_archive(principal_of(request), obj) else fields

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
            _change(actor, obj, form)
            return
        given = {"identifier": obj.identifier, "name": obj.name}
        if obj.parent is not None and obj.parent.kind == Scope.Kind.ORGANIZATION:
            made = operations.create_project(actor=actor, organization=obj.parent, **given)
        else:
            made = operations.create_organization(actor=actor, **given)
        obj.pk, obj.kind, obj.path = made.pk, made.kind, made.path

    def _may_on(self, principal: User, permission: str, obj: Scope) -> bool:
        if obj.archived_at is not None:
            return _may_archive(principal, obj)
        _, _, action = permission.rpartition("_")
        return can(principal, f"core_{obj.resource}_{action}", obj)


def _may_archive(principal: User, scope: Scope) -> bool:
    """Whether somebody may archive a scope, or bring an archived one back."""
    if scope.parent is None:
        return False
    if scope.archived_at is not None:
        return restorable(principal).filter(pk=scope.pk).exists()
    return can(principal, f"core_{scope.resource}_delete", scope)


def _change(actor: User, scope: Scope, form: "forms.ModelForm[Scope]") -> None:
    """Rename, archive or bring back; an archived scope is brought back before it is renamed."""
    wanted, is_archived = form.cleaned_data.get("archived"), scope.archived_at is not None
    if wanted is False and is_archived:
        operations.restore_scope(actor=actor, scope=scope)
    if "name" in form.changed_data:
        operations.rename_scope(actor=actor, scope=scope, name=scope.name)
    if wanted and not is_archived:
        operations.archive_scope(actor=actor, scope=scope)
