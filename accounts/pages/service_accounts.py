"""Pages of service accounts."""

from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Max, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.utils.html import format_html
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.api_keys import EDIT, NewServiceAccountForm, ServiceAccountForm
from rbac import operations
from rbac.models import ApiKey, ServiceAccount
from rbac.operations.escalation_checks import list_user_assignments
from rbac.policy import can_anywhere, filter_visible, get_permissions, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import DeletePage, ResourcePage
from web.http.pagination import paginate_queryset

VIEW: Final = "core_serviceaccount_view"
DELETE: Final = "core_serviceaccount_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
MOST_ROLES: Final = 100


def get_service_account(request: PageRequest, pk: int) -> ServiceAccount:
    """Return a service account that may be seen. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, ServiceAccount.objects.select_related("scope", "user"), pk=pk)


class ServiceAccountPage(ResourcePage[ServiceAccount]):
    """A page about a service account."""

    load = staticmethod(get_service_account)
    noun = "service account"
    parents = (("Service accounts", "service-accounts"),)
    detail = "service-account"


@require_sign_in
@require_safe
def service_accounts(request: PageRequest) -> HttpResponse:
    """List the service accounts of the chosen scope and below."""
    rows = ServiceAccount.objects.select_related("scope", "user").annotate(
        key_count=Count("user__api_keys", filter=Q(user__api_keys__revoked_at=None)),
        last_used_at=Max("user__api_keys__last_used_at"),
    )
    found = list_visible(request, VIEW, rows)
    content = {"page": paginate_queryset(found, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "accounts/service_accounts/list.html", content)


@require_sign_in
@require_safe
def service_account(request: PageRequest, pk: int) -> HttpResponse:
    """Show a service account with its roles and its keys."""
    account = get_service_account(request, pk)
    roles = list_user_assignments(account.user).select_related("role", "scope", "group", "resource_group")
    visible = filter_visible(request.user, "core_user_view", roles).order_by("pk")
    keys = ApiKey.objects.filter(user=account.user).select_related("scope", "created_by")
    content = {
        "account": account,
        "roles": visible[:MOST_ROLES],
        "page": paginate_queryset(keys, request),
        "rights": get_permissions(request.user, account),
    }
    return render(request, "accounts/service_accounts/account.html", content)


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_service_account(request: PageRequest) -> HttpResponse:
    """Make a service account."""
    form = NewServiceAccountForm(get_posted_data(request), person=request.user, scope=request.current_scope)
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
            form.add_problem(error)
        else:
            messages.success(request, f"{made.name} is created. Assign a role and create a key.")
            return redirect("service-account", pk=made.pk)
    return render(request, "accounts/service_accounts/new.html", {"form": form}, status=form.http_status)


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_service_account(request: PageRequest, pk: int) -> HttpResponse:
    """Change what a service account is called."""
    account = get_service_account(request, pk)
    require(request.user, EDIT, account)
    initial = {"name": account.name, "description": account.description}
    form = ServiceAccountForm(get_posted_data(request), initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            operations.update_service_account(actor=request.user, account=account, **form.cleaned_data)
        except ValidationError as error:
            form.add_problem(error)
            account.refresh_from_db(fields=["name", "description"])
        else:
            return redirect("service-account", pk=pk)
    content = {"form": form, "account": account}
    return render(request, "accounts/service_accounts/edit.html", content, status=form.http_status)


class DeleteServiceAccount(ServiceAccountPage, DeletePage[ServiceAccount]):
    """Delete a service account, after telling how many of its keys stop working."""

    permission = DELETE
    done = "{name} is deleted. Its keys no longer work."

    def get_texts(self) -> list[str]:
        count = ApiKey.objects.filter(user=self.object.user, revoked_at=None).count()
        keys = (
            f"{count} API key{pluralize(count, ' stops,s stop')} working at once."
            if count
            else "It has no API key."
        )
        stays = "Its roles are removed. In the history it keeps its name <code>{}</code>."
        return [keys, format_html(stays, self.object.user.username)]

    def perform(self, **given: Any) -> None:
        operations.delete_service_account(actor=self.request.user, account=self.object)
