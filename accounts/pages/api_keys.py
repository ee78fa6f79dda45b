"""Pages of API keys."""

from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.api_keys import ApiKeyRotationForm, NewApiKeyForm
from accounts.pages.service_accounts import VIEW, get_service_account
from rbac import operations
from rbac.models import ApiKey, ServiceAccount, User
from rbac.operations.api_keys import MANAGE_API_KEYS
from rbac.policy import Forbidden, NotVisible, filter_visible, require
from web.forms.page_forms import PageForm, get_posted_data
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import Breadcrumb, ConfirmPage, ResourcePage
from web.http.pagination import paginate_queryset
from web.templatetags.slipway import when

GET_OR_POST: Final = ["GET", "HEAD", "POST"]


def _find_api_key(request: PageRequest, pk: int) -> ApiKey:
    """Return a key that one manages. Raises `NotVisible`, `Forbidden`."""
    accounts = filter_visible(request.user, VIEW, ServiceAccount.objects.all())
    mine = Q(user=request.user) | Q(user__service_account__in=accounts.values("pk"))
    rows = ApiKey.objects.select_related("user__service_account__scope", "scope")
    key = rows.filter(mine, pk=pk).first()
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
    """List one's own API keys."""
    rows = ApiKey.objects.filter(user=request.user).select_related("scope", "created_by")
    content = {"page": paginate_queryset(rows, request), "rights": {MANAGE_API_KEYS}}
    return render(request, "accounts/keys/list.html", content)


@require_sign_in
@never_cache
@require_http_methods(GET_OR_POST)
def new_key(request: PageRequest) -> HttpResponse:
    """Make a key of one's own, and show its token this once."""
    return _create_key_page(request, request.user, {"back": reverse("my-api-keys")})


@require_sign_in
@never_cache
@require_http_methods(GET_OR_POST)
def new_account_key(request: PageRequest, pk: int) -> HttpResponse:
    """Make a key of a service account, and show its token this once."""
    account = get_service_account(request, pk)
    require(request.user, MANAGE_API_KEYS, account)
    return _create_key_page(
        request, account.user, {"account": account, "back": reverse("service-account", args=[pk])}
    )


@require_sign_in
@never_cache
@require_http_methods(GET_OR_POST)
def rotate_key(request: PageRequest, pk: int) -> HttpResponse:
    """Give a key a new token, and show it this once."""
    key, content = _get_api_key(request, pk)
    form = ApiKeyRotationForm(get_posted_data(request))
    if request.method == "POST" and form.is_valid():
        grace = int(form.cleaned_data["grace"])
        try:
            token = operations.rotate_api_key(actor=request.user, key=key, grace_seconds=grace)
        except (ValidationError, Forbidden) as error:
            _add_error(form, error)
        else:
            return render(request, "accounts/keys/shown.html", content | {"token": token})
    return render(request, "accounts/keys/rotate.html", content | {"form": form}, status=form.http_status)


class ApiKeyPage(ResourcePage[ApiKey]):
    """A page about an API key, of one's own or of a service account."""

    load = staticmethod(_find_api_key)
    noun = "API key"

    def check_access(self, found: ApiKey) -> None:
        """Do nothing: `load` has checked the permission on the key's owner."""

    def get_parents(self) -> list[Breadcrumb]:
        return list_key_parents(self.object.user)


class RevokeApiKey(ApiKeyPage, ConfirmPage[ApiKey]):
    """Revoke an API key."""

    verb = "Revoke"
    participle = "revoked"
    done = "The API key {name} is revoked."

    def get_texts(self) -> list[str]:
        refused = (
            "Requests with <code>{}…</code> are refused at once, also with a token replaced by rotation."
        )
        used_at = self.object.last_used_at
        used = format_html("It was last used {}.", when(used_at, "ago")) if used_at else "It was never used."
        return [format_html(refused, self.object.prefix), used, "A revoked key stays revoked."]

    def perform(self, **given: Any) -> None:
        operations.revoke_api_key(actor=self.request.user, key=self.object)


def _create_key_page(request: PageRequest, user: User, content: dict[str, Any]) -> HttpResponse:
    form = NewApiKeyForm(get_posted_data(request), person=request.user)
    if request.method == "POST" and form.is_valid():
        try:
            key, token = operations.create_api_key(actor=request.user, user=user, **form.given)
        except (ValidationError, Forbidden) as error:
            _add_error(form, error)
        else:
            return render(request, "accounts/keys/shown.html", content | {"key": key, "token": token})
    return render(request, "accounts/keys/new.html", content | {"form": form}, status=form.http_status)


def _add_error(form: PageForm, error: ValidationError | Forbidden) -> None:
    if isinstance(error, Forbidden):
        sentence = (
            f"The service account has permissions that you do not have: you need {error.permission} in the "
            f"same scope."
        )
        form.add_error(None, sentence)
    else:
        form.add_problem(error)


def _get_api_key(request: PageRequest, pk: int) -> tuple[ApiKey, dict[str, Any]]:
    """Return a key that one manages, with where it is listed."""
    key = _find_api_key(request, pk)
    account = getattr(key.user, "service_account", None)
    return key, {"key": key, "account": account, "back": list_key_parents(key.user)[-1].url}
