"""API keys in the admin site."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from rbac.gated_admin import AccountAdmin, principal_of
from rbac.models import ApiKey
from rbac.operations.keys import create_api_key, revoke_api_key


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
