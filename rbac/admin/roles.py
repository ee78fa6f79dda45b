"""Admin of roles, resource groups and role assignments."""

from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from rbac import operations
from rbac.admin.base import PolicyAdmin, build_user_url, get_principal
from rbac.admin.permission_table import PermissionTable, build_role_permissions_field
from rbac.models import ResourceGroup, ResourceGroupEntry, Role, RoleAssignment, User
from rbac.permissions import ALWAYS_GRANTED, RESOURCE_TYPES
from rbac.policy import can, can_anywhere, list_permitted_scopes
from rbac.policy.principals import build_validity_filter
from rbac.queries import list_visible_roles


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
    search_fields = ("name", "identifier", "scope__path")
    search_help_text = "Name, identifier or scope"
    autocomplete_fields = ("scope",)
    help_texts = {
        "scope": "The role can be assigned in this scope and below.",
        "identifier": "Used in the API. It cannot be changed.",
    }
    product_page = "role"
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
            raise TypeError("Choose a scope.")
        role = operations.create_role(
            actor=actor, scope=obj.scope, identifier=obj.identifier, name=obj.name, permissions=granted
        )
        obj.pk = role.pk

    def delete_model(self, request: HttpRequest, obj: Role) -> None:
        operations.delete_role(actor=get_principal(request), role=obj)


_ASSIGNMENT_FIELDS: Final = ("scope", "role", "user", "group", "resource_group")


class RoleAssignmentForm(forms.ModelForm):  # type: ignore[type-arg]
    """Form that explains violations of the table's constraints."""

    class Meta:
        model = RoleAssignment
        fields = (*_ASSIGNMENT_FIELDS, "expires_at")

    def clean(self) -> dict[str, Any]:
        """Reject assignments without or with two principals, and duplicates."""
        cleaned = super().clean() or {}
        user, group = cleaned.get("user"), cleaned.get("group")
        if {"user", "group"} <= cleaned.keys() and (user is None) == (group is None):
            self.add_error("user", "Choose one user or one group.")
        elif RoleAssignment.objects.filter(
            build_validity_filter(), **{name: cleaned.get(name) for name in _ASSIGNMENT_FIELDS}
        ).exists():
            self.add_error("role", f"{user or group} already has this role in this scope.")
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        # Without this field, the unique constraints are left to the operation: they count expired
        # assignments, which it replaces.
        return {"role", *super()._get_validation_exclusions()}  # type: ignore[misc]


class VisibleRoleFilter(admin.RelatedFieldListFilter):
    """Filter by a role that the reader may view."""

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: "admin.ModelAdmin[Any]"
    ) -> list[tuple[str, Any]]:
        roles = list_visible_roles(get_principal(request)).order_by("-builtin", "name")
        return [(str(role.pk), str(role)) for role in roles]


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(PolicyAdmin):
    """Admin list of role assignments; an assignment is added or deleted, never changed."""

    form = RoleAssignmentForm
    view_permission = "core_user_view"
    add_permission = delete_permission = "core_user_manage"
    fields = ("scope", "role", "user", "group", "resource_group", "expires_at")
    list_display = ("user", "group", "role", "scope", "resource_group", "expires_at")
    list_select_related = ("user", "group", "role", "scope", "resource_group")
    list_filter = (("role", VisibleRoleFilter),)
    search_fields = (
        "user__username",
        "user__email",
        "user__first_name",
        "user__last_name",
        "group__name",
        "role__name",
        "scope__path",
    )
    search_help_text = "User, group, role or scope"
    autocomplete_fields = _ASSIGNMENT_FIELDS
    help_texts = {
        "scope": "The role applies in this scope and below.",
        "role": "You can assign roles whose permissions you have.",
        "user": "A person, or the user of a service account. Choose a user or a group.",
        "group": "Every member gets the role.",
        "resource_group": "Limits the role to the resources of this group. Empty: all resources.",
        "expires_at": "In UTC. Empty: never.",
    }
    ordering = ("-pk",)

    def view_on_site(self, obj: RoleAssignment) -> str | None:
        """Return the row of the assignment on the page of its holder, or None."""
        anchor = f"#assignment-{obj.pk}"
        if obj.user is None:
            return reverse("user-group", args=[obj.group_id]) + anchor
        page = build_user_url(obj.user)
        return page and page + anchor

    def save_model(
        self, request: HttpRequest, obj: RoleAssignment, form: "forms.ModelForm[RoleAssignment]", change: bool
    ) -> None:
        assignment = operations.assign_role(
            actor=get_principal(request),
            scope=obj.scope,
            role=obj.role,
            user=obj.user,
            group=obj.group,
            resource_group=obj.resource_group,
            expires_at=obj.expires_at,
        )
        obj.pk = assignment.pk

    def delete_model(self, request: HttpRequest, obj: RoleAssignment) -> None:
        operations.remove_assignment(actor=get_principal(request), assignment=obj)


class ResourceGroupEntryForm(forms.ModelForm):  # type: ignore[type-arg]
    """All things of a kind, or one of them."""

    resource = forms.ChoiceField(
        choices=[("", "---------")] + [(r.identifier, r.title) for r in RESOURCE_TYPES]
    )
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="Identifier of one resource. Leave empty for all resources of this type.",
    )

    class Meta:
        model = ResourceGroupEntry
        fields = ("resource", "identifier")


class ResourceGroupEntryInline(admin.StackedInline):  # type: ignore[type-arg]
    """Entries of a resource group, with the permissions of the group."""

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
    product_page = "resource-group"
    fields = ("scope", "identifier", "name", "description")
    inlines = (ResourceGroupEntryInline,)
    list_display = ("name", "identifier", "scope", "description")
    list_select_related = ("scope",)
    search_fields = ("name", "identifier", "scope__path")
    search_help_text = "Name, identifier or scope"
    autocomplete_fields = ("scope",)
    help_texts = {
        "scope": "Role assignments in this scope and below can use the group.",
        "identifier": "Used in the API. It cannot be changed.",
    }
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: ResourceGroup | None = None) -> tuple[str, ...]:
        return ("scope", "identifier") if obj else ()

    def save_model(self, request: HttpRequest, obj: ResourceGroup, form: Any, change: bool) -> None:
        """Skip saving: the operation runs with the entries, which come later."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        actor, group = get_principal(request), form.instance
        entries = [entry for formset in formsets for entry in _build_entries(formset)]
        for formset in formsets:
            # The framework's history needs the saved objects of its formsets.
            formset.new_objects, formset.changed_objects, formset.deleted_objects = [], [], []
        values = {"name": group.name, "description": group.description, "entries": entries}
        if change:
            operations.update_resource_group(actor=actor, group=group, **values)
            return
        row = operations.create_resource_group(
            actor=actor, scope=group.scope, identifier=group.identifier, **values
        )
        group.pk = row.pk

    def delete_model(self, request: HttpRequest, obj: ResourceGroup) -> None:
        operations.delete_resource_group(actor=get_principal(request), group=obj)


def _build_entries(formset: Any) -> list[tuple[str, str]]:
    rows = [data for data in formset.cleaned_data if data.get("resource") and not data.get("DELETE")]
    return [(data["resource"], data["identifier"]) for data in rows]
