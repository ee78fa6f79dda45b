"""API keys in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import ForeignKey, Q
from django.forms import ModelChoiceField
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from rbac.admin.base import AccountPolicyAdmin, get_principal
from rbac.admin.permission_table import PermissionsField
from rbac.models import ApiKey, ServiceAccount, User
from rbac.operations.api_keys import MANAGE_API_KEYS, create_api_key, revoke_api_key
from rbac.policy import filter_visible, list_member_scopes


class ApiKeyAdminForm(forms.ModelForm):  # type: ignore[type-arg]
    """An API key, and what it is good for."""

    permissions = PermissionsField(
        label="Permissions", help_text="Nothing ticked: whatever its user may, wherever the key is good for."
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
    ordering = ("-pk",)

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        principal = get_principal(request)
        if db_field.name == "scope":
            kwargs["queryset"] = list_member_scopes(principal).order_by("path")
            return admin.ModelAdmin.formfield_for_foreignkey(self, db_field, request, **kwargs)
        mine = filter_visible(principal, MANAGE_API_KEYS, ServiceAccount.objects.all())
        kwargs["queryset"] = User.objects.filter(Q(pk=principal.pk) | Q(pk__in=mine.values("user_id")))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(
        self, request: HttpRequest, obj: ApiKey, form: "forms.ModelForm[ApiKey]", change: bool
    ) -> None:
        made, token = create_api_key(
            actor=get_principal(request),
            user=obj.user,
            name=obj.name,
            scope=obj.scope,
            permissions=obj.permissions,
            expires_at=obj.expires_at,
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
        revoke_api_key(actor=get_principal(request), key=obj)
