"""Pages of service accounts: which there are, one with its roles and keys, a new one, its end."""

from typing import Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.keys import EDIT, NewServiceAccountForm, ServiceAccountForm
from rbac import operations
from rbac.models import ApiKey, ServiceAccount
from rbac.operations.asking import roles_of
from rbac.policy import can_anywhere, permissions_at, require, visible_to
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset

VIEW: Final = "core_serviceaccount_view"
DELETE: Final = "core_serviceaccount_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
MOST_ROLES: Final = 100


@page
@require_safe
def service_accounts(request: PageRequest) -> HttpResponse:
    """This will list the service accounts of the chosen scope and below."""
    rows = ServiceAccount.objects.select_related("scope", "user").annotate(
        key_count=Count("user__api_keys", filter=Q(user__api_keys__revoked_at=None)),
        last_used_at=Max("user__api_keys__last_used_at"),
    )
    found = visible_here(request, VIEW, rows)
    content = {"page": keyset(found, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "accounts/service_accounts/list.html", content)


@page
@require_safe
def service_account(request: PageRequest, pk: int) -> HttpResponse:
    """This will show a service account with its roles and its keys."""
    account = found_account(request, pk)
    roles = roles_of(account.user).select_related("role", "scope", "group", "resource_group")
    visible = visible_to(request.user, "core_user_view", roles).order_by("pk")
    keys = ApiKey.objects.filter(user=account.user).select_related("scope", "created_by")
    content = {
        "account": account,
        "roles": visible[:MOST_ROLES],
        "page": keyset(keys, request),
        "rights": permissions_at(request.user, account),
    }
    return render(request, "accounts/service_accounts/account.html", content)


@page
@require_http_methods(GET_OR_POST)
def new_service_account(request: PageRequest) -> HttpResponse:
    """This will make a service account."""
    form = NewServiceAccountForm(posted(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_service_account(
                actor=request.user,
                scope=given["in_scope"],
                name=given["name"],
                description=given["description"],
            )
        except ValidationError as error:
            form.refuse(error)
        else:
            messages.success(request, f"{made.name} is there. Give it a role and a key.")
            return redirect("service-account", pk=made.pk)
    return render(request, "accounts/service_accounts/new.html", {"form": form}, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def edit_service_account(request: PageRequest, pk: int) -> HttpResponse:
    """This will change what a service account is called."""
    account = found_account(request, pk)
    require(request.user, EDIT, account)
    initial = {"name": account.name, "description": account.description}
    form = ServiceAccountForm(posted(request), initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            operations.update_service_account(actor=request.user, account=account, **form.cleaned_data)
        except ValidationError as error:
            form.refuse(error)
            account.refresh_from_db(fields=["name", "description"])
        else:
            return redirect("service-account", pk=pk)
    content = {"form": form, "account": account}
    return render(request, "accounts/service_accounts/edit.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def delete_service_account(request: PageRequest, pk: int) -> HttpResponse:
    """This will say what ends with a service account, then delete it."""
    account = found_account(request, pk)
    require(request.user, DELETE, account)
    if request.method == "POST":
        operations.delete_service_account(actor=request.user, account=account)
        messages.success(request, f"{account.name} is deleted, its keys open nothing any more.")
        return redirect("service-accounts")
    content = {"account": account, "key_count": _open_keys(account).count()}
    return render(request, "accounts/service_accounts/delete.html", content)


def found_account(request: PageRequest, pk: int) -> ServiceAccount:
    """Return a service account that may be seen. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, ServiceAccount.objects.select_related("scope", "user"), pk=pk)


def _open_keys(account: ServiceAccount) -> QuerySet[ApiKey]:
    return ApiKey.objects.filter(user=account.user, revoked_at=None)
