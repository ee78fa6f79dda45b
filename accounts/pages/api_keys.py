"""Pages of API keys."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.forms.api_keys import ApiKeyRotationForm, NewApiKeyForm
from accounts.pages.granted_roles import explain_escalation
from accounts.pages.service_accounts import VIEW, ServiceAccountPage
from rbac import operations
from rbac.models import ApiKey, ServiceAccount, User
from rbac.operations.api_keys import MANAGE_API_KEYS
from rbac.policy import NotVisible, filter_visible, require
from web.forms.page_forms import PageForm
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import (
    Breadcrumb,
    ConfirmPage,
    CreateChildPage,
    CreatePage,
    FormPage,
    ResourcePage,
)
from web.http.pagination import paginate_queryset
from web.templatetags.slipway import when

MORE_PERMISSIONS: Final = (
    "The service account has permissions that you do not have. You need {permission} in the same scope."
)


def _find_api_key(request: PageRequest, pk: int) -> ApiKey:
    """Return a key that the user may manage. Raises `NotVisible`, `Forbidden`."""
    accounts = filter_visible(request.user, VIEW, ServiceAccount.objects.all())
    key_filter = Q(user=request.user) | Q(user__service_account__in=accounts.values("pk"))
    rows = ApiKey.objects.select_related("user__service_account__scope", "scope")
    key = rows.filter(key_filter, pk=pk).first()
    if key is None:
        raise NotVisible("This key does not exist, or you cannot view it.")
    account: ServiceAccount | None = getattr(key.user, "service_account", None)
    if account is not None:
        require(request.user, MANAGE_API_KEYS, account)
    return key


def list_key_parents(user: User) -> list[Breadcrumb]:
    """Return the pages above those of a user's keys."""
    account: ServiceAccount | None = getattr(user, "service_account", None)
    if account is None:
        return [Breadcrumb("My API keys", reverse("my-api-keys"))]
    return [
        Breadcrumb("Service accounts", reverse("service-accounts")),
        Breadcrumb(account.name, reverse("service-account", args=[account.pk])),
    ]


@require_sign_in
@require_safe
def list_own_api_keys(request: PageRequest) -> HttpResponse:
    """List the user's own API keys."""
    rows = ApiKey.objects.filter(user=request.user).select_related("scope", "created_by")
    content = {"page": paginate_queryset(rows, request), "rights": {MANAGE_API_KEYS}}
    return render(request, "accounts/keys/list.html", content)


class ApiKeyPage(ResourcePage[ApiKey]):
    """Base of pages about an API key of the user or of a service account."""

    load = staticmethod(_find_api_key)
    noun = "API key"

    def check_access(self, resource: ApiKey) -> None:
        """Do nothing: `load` has checked the permission on the key's owner."""

    def get_parents(self) -> list[Breadcrumb]:
        return list_key_parents(self.object.user)


class ApiKeyFormPage(FormPage[Any]):
    """A page that shows the token of a key once."""

    form_class: ClassVar[Callable[..., PageForm]] = NewApiKeyForm
    here = "New key"

    def get_form_options(self) -> dict[str, Any]:
        return {"person": self.request.user}

    def create_key(self, user: User, form: NewApiKeyForm) -> tuple[ApiKey, str]:
        """Create a key of a user, and return it with its token."""
        with explain_escalation(MORE_PERMISSIONS):
            return operations.create_api_key(actor=self.request.user, user=user, **form.given)

    def finish(self, saved: tuple[ApiKey, str]) -> HttpResponse:
        key, token = saved
        content = {"key": key, "token": token, "here": key.name}
        return self.render(content, 200, "accounts/keys/shown.html")


@method_decorator(never_cache, name="dispatch")
class NewApiKey(ApiKeyFormPage, CreatePage[ApiKey]):
    """Create an API key of the user, and show its token once."""

    noun = "API key"
    parents = (("My API keys", "my-api-keys"),)

    def save(self, form: NewApiKeyForm) -> tuple[ApiKey, str]:
        return self.create_key(self.request.user, form)


@method_decorator(never_cache, name="dispatch")
class NewServiceAccountKey(ApiKeyFormPage, ServiceAccountPage, CreateChildPage[ServiceAccount]):
    """Create a key of a service account, and show its token once."""

    permission = MANAGE_API_KEYS
    noun = "API key"

    def get_context(self, form: NewApiKeyForm) -> dict[str, Any]:
        return {"heading": f"New API key of {self.get_name()}"}

    def save(self, form: NewApiKeyForm) -> tuple[ApiKey, str]:
        return self.create_key(self.object.user, form)


@method_decorator(never_cache, name="dispatch")
class RotateApiKey(ApiKeyPage, ApiKeyFormPage):
    """Rotate a key, and show its new token once."""

    verb = "Rotate"
    here = "Rotate a key"
    button = "Rotate key"
    refusal_title = "Could not rotate the key"
    form_class = ApiKeyRotationForm

    def get_form_options(self) -> dict[str, Any]:
        return {}

    def get_hint(self) -> str:
        hint = "The key <code>{}…</code> is replaced by a new key with the same name, permissions and expiry."
        return format_html(hint, self.object.prefix)

    def save(self, form: ApiKeyRotationForm) -> tuple[ApiKey, str]:
        grace = int(form.cleaned_data["grace"])
        with explain_escalation(MORE_PERMISSIONS):
            token = operations.rotate_api_key(actor=self.request.user, key=self.object, grace_seconds=grace)
        return self.object, token


class RevokeApiKey(ApiKeyPage, ConfirmPage[ApiKey]):
    """Revoke an API key."""

    verb = "Revoke"
    done = "API key {name} revoked."

    def get_texts(self) -> list[str]:
        effect = (
            "Requests with <code>{}…</code> are refused immediately. This includes a previous token of "
            "the key after a rotation."
        )
        used_at = self.object.last_used_at
        used = format_html("It was last used {}.", when(used_at, "ago")) if used_at else "It was never used."
        return [format_html(effect, self.object.prefix), used, "This cannot be undone."]

    def perform(self, **values: Any) -> None:
        operations.revoke_api_key(actor=self.request.user, key=self.object)
