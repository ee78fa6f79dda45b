"""Pages of service accounts."""

from typing import Any, Final

from django.db.models import Count, Max, Q
from django.http import HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from accounts.forms.api_keys import EDIT, NewServiceAccountForm, ServiceAccountForm
from accounts.pages.granted_roles import build_roles_context
from rbac import operations
from rbac.models import ApiKey, ServiceAccount
from rbac.operations.escalation_checks import list_user_assignments
from rbac.operations.users import MANAGE_USERS
from rbac.policy import can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, EditPage, Notice, ResourcePage
from web.http.pagination import paginate_queryset

VIEW: Final = "core_serviceaccount_view"
DELETE: Final = "core_serviceaccount_delete"


def get_service_account(request: PageRequest, pk: int) -> ServiceAccount:
    """Return a visible service account. Raises `NotVisible` (404)."""
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
    """List the service accounts of the current scope and the scopes below it."""
    rows = ServiceAccount.objects.select_related("scope", "user").annotate(
        key_count=Count("user__api_keys", filter=Q(user__api_keys__revoked_at=None)),
        last_used_at=Max("user__api_keys__last_used_at"),
    )
    visible = list_visible(request, VIEW, rows)
    content = {"page": paginate_queryset(visible, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "accounts/service_accounts/list.html", content)


@require_sign_in
@require_safe
def service_account(request: PageRequest, pk: int) -> HttpResponse:
    """Show a service account with its roles and its keys."""
    account = get_service_account(request, pk)
    keys = ApiKey.objects.filter(user=account.user).select_related("scope", "created_by")
    content = {
        "account": account,
        **build_roles_context(request, account.user, list_user_assignments(account.user)),
        "page": paginate_queryset(keys, request),
        "rights": get_permissions(request.user, account),
        "may_assign": can_anywhere(request.user, MANAGE_USERS),
    }
    return render(request, "accounts/service_accounts/account.html", content)


class NewServiceAccount(ServiceAccountPage, CreatePage[ServiceAccount]):
    """Create a service account."""

    permission = EDIT
    form_class = NewServiceAccountForm
    done = "Service account {name} created. Assign a role and create an API key."

    def save(self, form: NewServiceAccountForm) -> ServiceAccount:
        data = form.cleaned_data
        return operations.create_service_account(
            actor=self.request.user,
            scope=data["in_scope"],
            name=data["name"],
            description=data["description"],
        )


class EditServiceAccount(ServiceAccountPage, EditPage[ServiceAccount]):
    """Edit the name and description of a service account."""

    permission = EDIT
    form_class = ServiceAccountForm
    fields = ("name", "description")
    hint = "Its identifier, keys and roles do not change."
    done = ""

    def save(self, form: ServiceAccountForm) -> ServiceAccount:
        return operations.update_service_account(
            actor=self.request.user, account=self.object, **form.cleaned_data
        )


class DeleteServiceAccount(ServiceAccountPage, DeletePage[ServiceAccount]):
    """Delete a service account, after showing the number of its active keys."""

    permission = DELETE
    done = "Service account {name} deleted. Its API keys no longer work."

    def get_texts(self) -> list[str]:
        count = ApiKey.objects.filter(user=self.object.user, revoked_at=None).count()
        keys = (
            f"{count} API key{pluralize(count, ' stops,s stop')} working at once."
            if count
            else "It has no API keys."
        )
        stays = "Its roles are removed. Executions and the audit trail keep the name <code>{}</code>."
        return [keys, format_html(stays, self.object.user.username)]

    def get_notice(self) -> Notice | None:
        """Return what runs with the account's permissions, and would fail without it."""
        triggers = self.object.triggers.filter(pipeline__deleted_at=None).count()
        syncs = self.object.git_syncs.count()
        counts = ((triggers, "trigger"), (syncs, "Git sync"))
        users = " and ".join(f"{count} {noun}{pluralize(count)}" for count, noun in counts if count)
        if not users:
            return None
        verb = "uses" if triggers + syncs == 1 else "use"
        advice = "Without it they fail: select another service account in them first."
        return Notice(self.usage_title, [f"{users} {verb} its permissions. {advice}"])

    def perform(self, **values: Any) -> None:
        operations.delete_service_account(actor=self.request.user, account=self.object)
