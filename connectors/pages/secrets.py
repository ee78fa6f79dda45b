"""Pages of secrets: list, detail, create, rotate, rename, delete."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from connectors.forms.secrets import ChangeSourceForm, NewSecretForm, RenameSecretForm
from connectors.models import Secret
from connectors.operations import create_secret, delete_secret, run_secret_test, update_secret
from connectors.secret_managers.base import get_managers
from connectors.usages import find_usages
from rbac.policy import can, can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, RenamePage, ResourcePage
from web.http.pagination import paginate_queryset
from web.usages import ResourceUsages

VIEW_PERMISSION: Final = "core_secret_view"
EDIT_PERMISSION: Final = "core_secret_edit"
DELETE_PERMISSION: Final = "core_secret_delete"


_SECRETS = Secret.objects.defer("value").select_related("scope", "manager_connector")


def _get_secret(request: PageRequest, pk: int) -> Secret:
    return get_visible(request, VIEW_PERMISSION, _SECRETS.all(), pk=pk)


class SecretPage(ResourcePage[Secret]):
    """A page about a secret."""

    load = staticmethod(_get_secret)
    noun = "secret"
    parents = (("Secrets", "secrets"),)
    detail = "secret"


@require_sign_in
@require_safe
def list_secrets(request: PageRequest) -> HttpResponse:
    """List secrets without their values."""
    secrets = list_visible(request, VIEW_PERMISSION, _SECRETS.all())
    page, titles = paginate_queryset(secrets, request), _list_manager_titles()
    content = {
        "page": page,
        "rows": [(secret, titles.get(secret.manager, secret.manager)) for secret in page.items],
        "can_add": can_anywhere(request.user, EDIT_PERMISSION),
    }
    return render(request, "connectors/secrets/list.html", content)


@require_sign_in
@require_safe
def show_secret(request: PageRequest, pk: int) -> HttpResponse:
    """Show one secret without its value, and its usages."""
    secret = _get_secret(request, pk)
    content = {
        "secret": secret,
        "manager_title": _list_manager_titles().get(secret.manager, secret.manager),
        "can_view_manager": secret.manager_connector is not None
        and can(request.user, "core_connector_view", secret.manager_connector),
        "uses": find_usages(secret, request.user),
        "rights": get_permissions(request.user, secret),
    }
    return render(request, "connectors/secrets/secret.html", content)


@require_sign_in
@require_POST
def test_secret(request: PageRequest, pk: int) -> HttpResponse:
    """Read the value of a secret now, and show its length and the time that it took."""
    secret = get_visible(request, VIEW_PERMISSION, Secret.objects.select_related("scope"), pk=pk)
    test = run_secret_test(actor=request.user, secret=secret)
    level = messages.SUCCESS if test.ok else messages.ERROR
    messages.add_message(request, level, f"{secret.name}: {test.message}")
    return redirect("secret", pk=pk)


def _list_manager_titles() -> dict[str, str]:
    return {name: manager.title for name, manager in get_managers().items()}


@method_decorator(sensitive_post_parameters(), name="dispatch")
class NewSecret(SecretPage, CreatePage[Secret]):
    """Create a secret."""

    template_name = "connectors/secrets/form.html"
    permission = EDIT_PERMISSION
    form_class = NewSecretForm
    done = "Secret {name} created."

    def save(self, form: NewSecretForm) -> Secret:
        data = form.cleaned_data
        return create_secret(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            name=data["name"],
            **form.submitted_source,
        )


@method_decorator(sensitive_post_parameters(), name="dispatch")
class RotateSecret(SecretPage, FormPage[Secret]):
    """Replace the value or reference of a secret; its users get the new value with their next call."""

    template_name = "connectors/secrets/rotate.html"
    permission = EDIT_PERMISSION
    verb = "Rotate"
    button = "Rotate secret"
    form_class = ChangeSourceForm
    done = "Secret {name} rotated. Test the connectors that use it."

    def get_form_options(self) -> dict[str, Any]:
        return {"person": self.request.user, "secret": self.object}

    def get_context(self, form: ChangeSourceForm) -> dict[str, Any]:
        return {"uses": find_usages(self.object, self.request.user)}

    def save(self, form: ChangeSourceForm) -> Secret:
        update_secret(actor=self.request.user, secret=self.object, **form.submitted_source)
        return self.object


class RenameSecret(SecretPage, RenamePage[Secret]):
    """Rename a secret; its identifier does not change."""

    permission = EDIT_PERMISSION
    form_class = RenameSecretForm

    def save(self, form: RenameSecretForm) -> None:
        update_secret(actor=self.request.user, secret=self.object, name=form.cleaned_data["name"])


class DeleteSecret(SecretPage, DeletePage[Secret]):
    """Delete a secret without usages."""

    permission = DELETE_PERMISSION
    text = "Nothing uses it. Its value cannot be restored."
    done = "Secret {name} deleted."

    def get_usages(self) -> ResourceUsages:
        return find_usages(self.object, self.request.user)

    def perform(self, **values: Any) -> None:
        delete_secret(actor=self.request.user, secret=self.object)
