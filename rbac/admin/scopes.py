"""Scopes in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey, Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.archive_guards import ScopeBusy, list_work_in_progress
from rbac.models import Scope, User
from rbac.policy import can, list_permitted_scopes
from rbac.queries import list_restorable_scopes


class ScopeForm(forms.ModelForm):  # type: ignore[type-arg]
    """A name, and whether the scope is archived."""

    archived = forms.BooleanField(
        required=False,
        help_text="Resources in an archived scope and below cannot be viewed or used. Nothing is deleted.",
    )

    class Meta:
        model = Scope
        fields = ("parent", "identifier", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.was_archived = self.instance.archived_at is not None
        self.initial["archived"] = self.was_archived

    def clean_archived(self) -> bool:
        """Refuse to archive a scope with work in progress."""
        is_archived = bool(self.cleaned_data["archived"])
        if is_archived and not self.was_archived and (work := list_work_in_progress(self.instance)):
            raise forms.ValidationError(str(ScopeBusy(self.instance, work)))
        return is_archived

    def clean(self) -> dict[str, Any]:
        """Refuse an identifier that exists already below the parent."""
        cleaned = super().clean() or {}
        parent, identifier = cleaned.get("parent"), cleaned.get("identifier")
        if parent and identifier and Scope.objects.filter(path=f"{parent.path}/{identifier}").exists():
            self.add_error(
                "identifier", (f"{identifier} already exists in {parent.path}. It may be archived.")
            )
        return cleaned


@admin.register(Scope)
class ScopeAdmin(PolicyAdmin):
    """Admin list of the account, organizations and projects; archived ones for users who may restore them."""

    form = ScopeForm
    view_permission = "core_organization_view"
    add_permission = "core_project_edit"
    change_permission = "core_project_edit"
    list_display = ("path", "kind", "name", "created_at", "archived_at")
    list_filter = ("kind",)
    search_fields = ("path", "name")
    search_help_text = "Path or name"
    autocomplete_fields = ("parent",)
    help_texts = {
        "parent": "The account for an organization, an organization for a project.",
        "identifier": "Part of the path. It cannot be changed.",
    }
    product_page = "access-scope"
    ordering = ("path",)

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Scope]":
        visible = super().get_queryset(request).values("pk")
        archived = list_restorable_scopes(get_principal(request)).values("pk")
        return Scope.objects.filter(Q(pk__in=visible) | Q(pk__in=archived)).select_related("parent")

    def get_fields(self, request: HttpRequest, obj: Scope | None = None) -> Any:
        fields = ["parent", "identifier", "name"]
        return [*fields, "archived"] if obj and _can_archive(get_principal(request), obj) else fields

    def get_readonly_fields(self, request: HttpRequest, obj: Scope | None = None) -> tuple[str, ...]:
        return ("parent", "identifier") if obj else ()

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        above = list_permitted_scopes(get_principal(request), self.add_permission).exclude(
            kind=Scope.Kind.PROJECT
        )
        field = super().formfield_for_foreignkey(db_field, request, queryset=above.order_by("path"), **kwargs)
        if field is not None:
            field.required = True
        return field

    def save_model(
        self, request: HttpRequest, obj: Scope, form: "forms.ModelForm[Scope]", change: bool
    ) -> None:
        actor = get_principal(request)
        if change:
            _apply_change(actor, obj, form)
            return
        values = {"identifier": obj.identifier, "name": obj.name}
        if obj.parent is not None and obj.parent.kind == Scope.Kind.ORGANIZATION:
            scope = operations.create_project(actor=actor, organization=obj.parent, **values)
        else:
            scope = operations.create_organization(actor=actor, **values)
        obj.pk, obj.kind, obj.path = scope.pk, scope.kind, scope.path

    def _has_row_permission(self, principal: User, permission: str, obj: Scope) -> bool:
        if obj.archived_at is not None:
            return _can_archive(principal, obj)
        _, _, action = permission.rpartition("_")
        return can(principal, f"core_{obj.resource}_{action}", obj)


def _can_archive(principal: User, scope: Scope) -> bool:
    """Return whether the user may archive or restore a scope."""
    if scope.parent is None:
        return False
    if scope.archived_at is not None:
        return list_restorable_scopes(principal).filter(pk=scope.pk).exists()
    return can(principal, f"core_{scope.resource}_delete", scope)


def _apply_change(actor: User, scope: Scope, form: "forms.ModelForm[Scope]") -> None:
    """Rename, archive or restore a scope; an archived scope is restored before it is renamed."""
    archive, is_archived = form.cleaned_data.get("archived"), scope.archived_at is not None
    if archive is False and is_archived:
        operations.restore_scope(actor=actor, scope=scope)
    if "name" in form.changed_data:
        operations.rename_scope(actor=actor, scope=scope, name=scope.name)
    if archive and not is_archived:
        operations.archive_scope(actor=actor, scope=scope)
