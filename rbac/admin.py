"""The admin site of access: who is there, what the roles are, who has them, what was done."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group
from django.db.models import ForeignKey, Q, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from rbac import audit, operations
from rbac.gated_admin import AccountAdmin, GatedAdmin, principal_of
from rbac.keys import create_api_key, revoke_api_key
from rbac.models import ApiKey, AuditEntry, Role, RoleAssignment, Scope, User, UserGroup
from rbac.policy import can, can_anywhere, scopes_where
from rbac.role_form import RoleForm

admin.site.site_header = admin.site.site_title = "Slipway administration"
admin.site.index_title = "Access"
admin.site.unregister(Group)


class NewUserForm(AdminUserCreationForm):  # type: ignore[type-arg]
    """A user name and a password."""

    class Meta(AdminUserCreationForm.Meta):
        model = User


class UserForm(UserChangeForm):  # type: ignore[type-arg]
    """What can be changed of a user."""

    class Meta(UserChangeForm.Meta):
        model = User


@admin.register(User)
class UserAdmin(AccountAdmin, DjangoUserAdmin):  # type: ignore[type-arg]
    """People and programs; they are deactivated, never deleted: the audit trail names them."""

    view_permission = "core_user_view"
    add_permission = change_permission = "core_user_manage"
    form = UserForm
    add_form = NewUserForm
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("May sign in", {"fields": ("is_active", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = ("username", "email", "first_name", "last_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff")
    filter_horizontal = ()
    ordering = ("username",)

    def save_model(
        self, request: HttpRequest, obj: User, form: "forms.ModelForm[User]", change: bool
    ) -> None:
        obj.save()
        fields = sorted(name for name in form.changed_data if "password" not in name)
        after = {name: str(form.cleaned_data.get(name)) for name in fields}
        action = "user.update" if change else "user.create"
        audit.record(actor=principal_of(request), action=action, thing=obj, after=after, source="admin")


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


@admin.register(Role)
class RoleAdmin(GatedAdmin):
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
        scopes = scopes_where(principal_of(request), self.view_permission)
        return Role.objects.filter(Q(builtin=True) | Q(scope__in=scopes.values("pk")))

    def get_fields(self, request: HttpRequest, obj: Role | None = None) -> tuple[str, ...]:
        return ("name", "identifier", "permission_list") if obj and obj.builtin else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Role | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        return ("scope", "identifier", "permission_list")

    @admin.display(description="Permissions")
    def permission_list(self, obj: Role) -> str:
        return ", ".join(obj.permissions.order_by("permission").values_list("permission", flat=True))

    def _may_on(self, principal: User, permission: str, obj: Role) -> bool:
        if obj.scope is None:
            return permission == self.view_permission and can_anywhere(principal, permission)
        return can(principal, permission, obj.scope)

    def save_model(
        self, request: HttpRequest, obj: Role, form: "forms.ModelForm[Role]", change: bool
    ) -> None:
        actor, granted = principal_of(request), form.cleaned_data["granted"]
        if change:
            operations.update_role(actor=actor, role=obj, name=obj.name, permissions=granted)
            return
        if obj.scope is None:
            raise TypeError("The form demands a scope.")
        made = operations.create_role(
            actor=actor, scope=obj.scope, identifier=obj.identifier, name=obj.name, permissions=granted
        )
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: Role) -> None:
        operations.delete_role(actor=principal_of(request), role=obj)


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


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(GatedAdmin):
    """Who has which role where; an assignment is added or removed, never changed."""

    view_permission = "core_user_view"
    add_permission = delete_permission = "core_user_manage"
    fields = ("scope", "role", "user", "group", "expires_at")
    list_display = ("user", "group", "role", "scope", "expires_at")
    list_select_related = ("user", "group", "role", "scope")
    list_filter = ("role",)
    search_fields = ("user__username", "group__name", "scope__path")
    ordering = ("-pk",)

    def save_model(
        self, request: HttpRequest, obj: RoleAssignment, form: "forms.ModelForm[RoleAssignment]", change: bool
    ) -> None:
        made = operations.assign_role(
            actor=principal_of(request),
            scope=obj.scope,
            role=obj.role,
            user=obj.user,
            group=obj.group,
            expires_at=obj.expires_at,
        )
        obj.pk = made.pk

    def delete_model(self, request: HttpRequest, obj: RoleAssignment) -> None:
        operations.remove_assignment(actor=principal_of(request), assignment=obj)


@admin.register(ApiKey)
class ApiKeyAdmin(AccountAdmin):
    """API keys; deleting one revokes it, the row stays."""

    view_permission = "core_user_view"
    add_permission = delete_permission = "core_user_manage"
    fields = ("user", "name", "expires_at")
    list_display = ("name", "user", "prefix", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("name", "user__username", "prefix")
    ordering = ("-pk",)

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: "forms.ModelForm[ApiKey]", change: bool
    ) -> None:
        made, token = create_api_key(
            actor=principal_of(request), user=obj.user, name=obj.name, expires_at=obj.expires_at
        )
        obj.pk, obj.prefix = made.pk, made.prefix
        request.new_token = token  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: Any = None) -> HttpResponse:
        # Part of the answer itself, so that it is stored neither in a session nor in a cookie.
        shown = {
            **self.admin_site.each_context(request),
            "title": "API key",
            "key": obj,
            "token": request.new_token,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/rbac/apikey/token.html", shown)

    def delete_model(self, request: HttpRequest, obj: ApiKey) -> None:
        revoke_api_key(actor=principal_of(request), key=obj)


@admin.register(AuditEntry)
class AuditEntryAdmin(GatedAdmin):
    """What was done, to be read only."""

    view_permission = "core_audit_view"
    list_display = ("at", "actor_name", "action", "thing_type", "thing_name", "scope", "source", "address")
    list_select_related = ("scope",)
    list_filter = ("action", "source")
    search_fields = ("actor_name", "thing_name", "request_id")
    date_hierarchy = "at"
    ordering = ("-pk",)
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        principal = principal_of(request)
        scopes = scopes_where(principal, self.view_permission)
        # Sign-ins and the like belong to the account.
        of_account = scopes.filter(kind=Scope.Kind.ACCOUNT).exists()
        unscoped = Q(scope__isnull=True) if of_account else Q(pk__in=[])
        return AuditEntry.objects.filter(Q(scope__in=scopes.values("pk")) | unscoped)

    def _may_on(self, principal: User, permission: str, obj: AuditEntry) -> bool:
        return can(principal, permission, obj.scope or Scope.objects.account())
