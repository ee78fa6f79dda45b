"""Resource groups in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from rbac import operations
from rbac.admin.base import PolicyAdmin, get_principal
from rbac.models import ResourceGroup, ResourceGroupEntry
from rbac.permissions import RESOURCE_TYPES


class ResourceGroupEntryForm(forms.ModelForm):  # type: ignore[type-arg]
    """All things of a kind, or one of them."""

    resource = forms.ChoiceField(
        choices=[("", "---------")] + [(r.identifier, r.title) for r in RESOURCE_TYPES]
    )
    identifier = forms.CharField(
        required=False, max_length=128, help_text="Of one thing; leave it empty for all of the kind."
    )

    class Meta:
        model = ResourceGroupEntry
        fields = ("resource", "identifier")


class ResourceGroupEntryInline(admin.TabularInline):  # type: ignore[type-arg]
    """What is in a resource group; who may change the group may change this."""

    model = ResourceGroupEntry
    form = ResourceGroupEntryForm
    extra = 3
    verbose_name, verbose_name_plural = "thing", "things"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._parent().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._parent().has_change_permission(request, obj)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._parent().has_change_permission(request, obj)

    def _parent(self) -> "ResourceGroupAdmin":
        return ResourceGroupAdmin(ResourceGroup, self.admin_site)


@admin.register(ResourceGroup)
class ResourceGroupAdmin(PolicyAdmin):
    """Choices of things that role assignments can be narrowed to."""

    view_permission = "core_resourcegroup_view"
    add_permission = change_permission = "core_resourcegroup_edit"
    delete_permission = "core_resourcegroup_delete"
    fields = ("scope", "identifier", "name", "description")
    inlines = (ResourceGroupEntryInline,)
    list_display = ("name", "identifier", "scope", "description")
    list_select_related = ("scope",)
    search_fields = ("name", "identifier")
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: ResourceGroup | None = None) -> tuple[str, ...]:
        return ("scope", "identifier") if obj else ()

    def save_model(self, request: HttpRequest, obj: ResourceGroup, form: Any, change: bool) -> None:
        """It is saved with its entries, which come after it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        actor, group = get_principal(request), form.instance
        entries = [entry for formset in formsets for entry in _build_entries(formset)]
        for formset in formsets:
            # The framework's own history asks for what its formsets saved.
            formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        given = {"name": group.name, "description": group.description, "entries": entries}
        if change:
            operations.update_resource_group(actor=actor, group=group, **given)
            return
        made = operations.create_resource_group(
            actor=actor, scope=group.scope, identifier=group.identifier, **given
        )
        group.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: ResourceGroup) -> None:
        operations.delete_resource_group(actor=get_principal(request), group=obj)


def _build_entries(formset: Any) -> list[tuple[str, str]]:
    kept = [data for data in formset.cleaned_data if data.get("resource") and not data.get("DELETE")]
    return [(data["resource"], data["identifier"]) for data in kept]
