"""Pages of API keys: one's own, a new one, a new token for one, the end of one."""

from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.keys import NewKeyForm, RotationForm
from accounts.pages.service_accounts import VIEW, found_account
from rbac import operations
from rbac.models import ApiKey, ServiceAccount, User
from rbac.operations.keys import MANAGE
from rbac.policy import Forbidden, NotVisible, require, visible_to
from web.page_forms import PageForm, posted
from web.pages import PageRequest, page
from web.paging import keyset

GET_OR_POST: Final = ["GET", "HEAD", "POST"]


@page
@require_safe
def my_keys(request: PageRequest) -> HttpResponse:
    """This will list one's own API keys."""
    rows = ApiKey.objects.filter(user=request.user).select_related("scope", "created_by")
    content = {"page": keyset(rows, request), "rights": {MANAGE}}
    return render(request, "accounts/keys/list.html", content)


@page
@never_cache
@require_http_methods(GET_OR_POST)
def new_key(request: PageRequest) -> HttpResponse:
    """This will make a key of one's own, and show its token this once."""
    return _new(request, request.user, {"back": reverse("my-api-keys")})


@page
@never_cache
@require_http_methods(GET_OR_POST)
def new_account_key(request: PageRequest, pk: int) -> HttpResponse:
    """This will make a key of a service account, and show its token this once."""
    account = found_account(request, pk)
    require(request.user, MANAGE, account)
    return _new(request, account.user, {"account": account, "back": reverse("service-account", args=[pk])})


@page
@never_cache
@require_http_methods(GET_OR_POST)
def rotate_key(request: PageRequest, pk: int) -> HttpResponse:
    """This will give a key a new token, and show it this once."""
    key, content = _found(request, pk)
    form = RotationForm(posted(request))
    if request.method == "POST" and form.is_valid():
        grace = int(form.cleaned_data["grace"])
        try:
            token = operations.rotate_api_key(actor=request.user, key=key, grace_seconds=grace)
        except (ValidationError, Forbidden) as error:
            _refuse(form, error)
        else:
            return render(request, "accounts/keys/shown.html", content | {"token": token})
    return render(request, "accounts/keys/rotate.html", content | {"form": form}, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def revoke_key(request: PageRequest, pk: int) -> HttpResponse:
    """This will end a key at once."""
    key, content = _found(request, pk)
    if request.method == "POST":
        operations.revoke_api_key(actor=request.user, key=key)
        messages.success(request, f"The key {key.name} opens nothing any more.")
        return redirect(content["back"])
    return render(request, "accounts/keys/revoke.html", content)


def _new(request: PageRequest, user: User, content: dict[str, Any]) -> HttpResponse:
    form = NewKeyForm(posted(request), person=request.user)
    if request.method == "POST" and form.is_valid():
        try:
            key, token = operations.create_api_key(actor=request.user, user=user, **form.given)
        except (ValidationError, Forbidden) as error:
            _refuse(form, error)
        else:
            return render(request, "accounts/keys/shown.html", content | {"key": key, "token": token})
    return render(request, "accounts/keys/new.html", content | {"form": form}, status=form.http_status)


def _refuse(form: PageForm, error: ValidationError | Forbidden) -> None:
    if isinstance(error, Forbidden):
        sentence = (
            f"Its service account may do what you may not: you lack {error.permission} where it has it."
        )
        form.add_error(None, sentence)
    else:
        form.refuse(error)


def _found(request: PageRequest, pk: int) -> tuple[ApiKey, dict[str, Any]]:
    """Return a key that one manages, with where it is listed. Raises `NotVisible`, `Forbidden`."""
    accounts = visible_to(request.user, VIEW, ServiceAccount.objects.all())
    mine = Q(user=request.user) | Q(user__service_account__in=accounts.values("pk"))
    rows = ApiKey.objects.select_related("user__service_account__scope", "scope")
    key = rows.filter(mine, pk=pk).first()
    if key is None:
        raise NotVisible("There is no such key for you.")
    account: ServiceAccount | None = getattr(key.user, "service_account", None)
    if account is None:
        return key, {"key": key, "back": reverse("my-api-keys")}
    require(request.user, MANAGE, account)
    return key, {"key": key, "account": account, "back": reverse("service-account", args=[account.pk])}
