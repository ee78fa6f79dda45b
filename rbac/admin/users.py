"""Admin of users, user groups, service accounts and their API keys."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.db import transaction
from django.db.models import ForeignKey, ManyToManyField, Q
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from rbac import audit, operations
from rbac.admin.base import AccountPolicyAdmin, PolicyAdmin, build_user_url, get_principal
from rbac.admin.permission_table import PermissionsField
from rbac.models import ApiKey, ServiceAccount, User, UserGroup
from rbac.operations.api_keys import MANAGE_API_KEYS, create_api_key, revoke_api_key
from rbac.operations.users import refuse_more_privileged
from rbac.policy import filter_visible, list_member_scopes
from rbac.queries import list_visible_users


class NewUserAdminForm(AdminUserCreationForm):  # type: ignore[type-arg]
    """A user name and a password."""

    class Meta(AdminUserCreationForm.Meta):
        model = User


class UserAdminForm(UserChangeForm):  # type: ignore[type-arg]
    """Writable fields of a user."""

    class Meta(UserChangeForm.Meta):
        model = User


@admin.register(User)
class UserAdmin(AccountPolicyAdmin, DjangoUserAdmin):  # type: ignore[type-arg]
    """People and programs; they are deactivated, never deleted: the audit trail names them."""

    view_permission = "core_user_view"
    add_permission = change_permission = "core_user_manage"
    form = UserAdminForm
    add_form = NewUserAdminForm
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        ("Can sign in", {"fields": ("is_active", "is_staff")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("last_login", "date_joined")
    list_display = ("username", "email", "first_name", "last_name", "is_active", "is_staff", "last_login")
    list_filter = ("is_active", "is_staff")
    filter_horizontal = ()
    search_help_text = "User name, name or email address"
    help_texts = {
        "is_active": "Clear it to disable the user: sessions end and API keys stop working at once.",
        "is_staff": "Opens these administration pages. Permissions come from roles alone.",
    }
    ordering = ("username",)

    def view_on_site(self, obj: User) -> str | None:
        """Return the page of the person or service account, or None."""
        return build_user_url(obj)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        # A program is changed as its service account, and has no password.
        is_program = obj is not None and obj.kind == User.Kind.SERVICE_ACCOUNT
        return not is_program and super().has_change_permission(request, obj)

    def save_model(
        self, request: HttpRequest, obj: User, form: "forms.ModelForm[User]", change: bool
    ) -> None:
        actor = get_principal(request)
        if change:
            refuse_more_privileged(actor, obj)
            if "is_active" in form.changed_data:
                self.set_active(actor, obj, is_active=obj.is_active)
        fields = sorted({name for name in form.changed_data if "password" not in name} - {"is_active"})
        if change and not fields:
            return
        before = User.objects.filter(pk=obj.pk).values(*fields).first() if change else None
        # Only what the form changed: a password or a sign-in meanwhile stays.
        obj.save(update_fields=fields if change else None)
        after = {name: form.cleaned_data.get(name) for name in fields}
        action = "user.update" if change else "user.create"
        audit.record_audit_entry(actor=actor, action=action, thing=obj, before=before, after=after)

    def set_active(self, actor: User, person: User, *, is_active: bool) -> None:
        """Disable or enable a user. Raises `Forbidden`, `ValidationError`."""
        operations.set_user_active(actor=actor, person=person, is_active=is_active)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        person = self.get_object(request, unquote(id)) if request.method == "POST" else None
        if person is not None:
            refuse_more_privileged(get_principal(request), person)
        answer: HttpResponse = super().user_change_password(request, id, form_url)
        # Django also redirects after a submission that it refused.
        changed = User.objects.exclude(password=person.password).filter(pk=person.pk) if person else ()
        for row in changed:
            self.finish_password_change(request, row)
        return answer

    def finish_password_change(self, request: HttpRequest, person: User) -> None:
        """Record the new password of a user."""
        audit.record_audit_entry(actor=get_principal(request), action="user.password_change", thing=person)


@admin.register(UserGroup)
class UserGroupAdmin(PolicyAdmin):
    """Groups of people."""

    view_permission = "core_usergroup_view"
    add_permission = change_permission = delete_permission = "core_usergroup_manage"
    fields = ("scope", "identifier", "name", "external_name", "users")
    list_display = ("name", "identifier", "scope", "external_name")
    list_select_related = ("scope",)
    autocomplete_fields = ("scope",)
    # Two lists: the searched box for several rows is not usable with a screen reader.
    filter_horizontal = ("users",)
    search_fields = ("name", "identifier", "external_name", "scope__path")
    search_help_text = "Name, identifier, provider group or scope"
    help_texts = {
        "scope": "The group can have roles in this scope and below.",
        "identifier": "Used in the API and in pipelines. It cannot be changed.",
        "external_name": "Name of the group at the single sign-on provider, which then manages the members."
        " Another name removes the members until they sign in.",
        "users": "They get the roles of the group.",
    }
    product_page = "user-group"
    ordering = ("name",)

    def get_readonly_fields(self, request: HttpRequest, obj: UserGroup | None = None) -> tuple[str, ...]:
        return ("scope", "identifier") if obj else ()

    def formfield_for_manytomany(
        self, db_field: "ManyToManyField[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "forms.ModelMultipleChoiceField[Any] | None":
        people = Q(pk__in=list_visible_users(get_principal(request)).values("pk"))
        group_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
        if group_id is not None:
            # The form shows the members of the group, who stay unless removed.
            people |= Q(user_groups=int(unquote(group_id)))
        kwargs["queryset"] = User.objects.filter(people).distinct().order_by("username")
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: UserGroup, form: "forms.ModelForm[UserGroup]", change: bool
    ) -> None:
        values = {field: form.cleaned_data[field] for field in ("name", "external_name", "users")}
        actor = get_principal(request)
        if change:
            operations.update_user_group(actor=actor, group=obj, **values)
            return
        group = operations.create_user_group(
            actor=actor, scope=obj.scope, identifier=obj.identifier, **values
        )
        obj.pk = group.pk

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Skip: the operation has set the members."""

    def delete_model(self, request: HttpRequest, obj: UserGroup) -> None:
        operations.delete_user_group(actor=get_principal(request), group=obj)


@admin.register(ServiceAccount)
class ServiceAccountAdmin(PolicyAdmin):
    """Programs with roles of their own; deleting one revokes its keys and removes its roles."""

    view_permission = "core_serviceaccount_view"
    add_permission = change_permission = "core_serviceaccount_edit"
    delete_permission = "core_serviceaccount_delete"
    list_display = ("name", "identifier", "scope", "user", "created_at")
    list_select_related = ("scope", "user")
    search_fields = ("name", "identifier", "user__username", "scope__path")
    search_help_text = "Name, identifier, user name or scope"
    autocomplete_fields = ("scope",)
    help_texts = {"scope": "The scope it belongs to. Its permissions come from the roles you assign."}
    product_page = "service-account"
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
        actor, values = get_principal(request), {"name": obj.name, "description": obj.description}
        if change:
            operations.update_service_account(actor=actor, account=obj, **values)
            return
        account = operations.create_service_account(
            actor=actor, scope=obj.scope, identifier=obj.identifier, **values
        )
        obj.pk, obj.user = account.pk, account.user

    def delete_model(self, request: HttpRequest, obj: ServiceAccount) -> None:
        operations.delete_service_account(actor=get_principal(request), account=obj)


class ApiKeyAdminForm(forms.ModelForm):  # type: ignore[type-arg]
    """API key with its limits."""

    permissions = PermissionsField(
        label="Permissions",
        help_text="If nothing is selected, the key has all permissions of its user in its scope.",
    )

    class Meta:
        model = ApiKey
        fields = ("user", "name", "scope", "permissions", "expires_at")


@admin.register(ApiKey)
class ApiKeyAdmin(AccountPolicyAdmin):
    """API keys; deleting one revokes it, the row stays."""

    view_permission = "core_user_view"
    add_permission = delete_permission = "core_user_manage"
    form = ApiKeyAdminForm
    fields = ("user", "name", "scope", "permissions", "expires_at")
    list_display = ("name", "user", "prefix", "scope", "expires_at", "last_used_at", "revoked_at")
    list_select_related = ("user", "scope")
    search_fields = ("name", "user__username", "prefix")
    search_help_text = "Name, user or prefix of the key"
    autocomplete_fields = ("user", "scope")
    help_texts = {
        "user": "You, or a service account whose keys you manage.",
        "scope": "The key has no access outside this scope. Empty: everywhere.",
    }
    ordering = ("-pk",)

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        principal = get_principal(request)
        if db_field.name == "scope":
            kwargs["queryset"] = list_member_scopes(principal).order_by("path")
            return admin.ModelAdmin.formfield_for_foreignkey(self, db_field, request, **kwargs)
        accounts = filter_visible(principal, MANAGE_API_KEYS, ServiceAccount.objects.all())
        kwargs["queryset"] = User.objects.filter(Q(pk=principal.pk) | Q(pk__in=accounts.values("user_id")))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: "forms.ModelForm[ApiKey]", change: bool
    ) -> None:
        key, token = create_api_key(
            actor=get_principal(request),
            user=obj.user,
            name=obj.name,
            scope=obj.scope,
            permissions=obj.permissions,
            expires_at=obj.expires_at,
        )
        obj.pk, obj.prefix = key.pk, key.prefix
        request.new_token = token  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: Any = None) -> HttpResponse:
        # Part of the answer itself, so that it is stored neither in a session nor in a cookie.
        context = {
            **self.admin_site.each_context(request),
            "title": "API key",
            "key": obj,
            "token": request.new_token,  # type: ignore[attr-defined]
        }
        return TemplateResponse(request, "admin/rbac/apikey/token.html", context)

    def delete_model(self, request: HttpRequest, obj: ApiKey) -> None:
        revoke_api_key(actor=get_principal(request), key=obj)
