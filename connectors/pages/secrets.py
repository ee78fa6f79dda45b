"""Pages of secrets: list, detail, create, rotate, rename, delete."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from connectors.forms.secrets import NewSecretForm, RenameSecretForm, SecretValueForm
from connectors.models import Secret
from connectors.operations import create_secret, delete_secret, update_secret
from connectors.usages import find_usages
from rbac.policy import can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import CreatePage, DeletePage, FormPage, RenamePage, ResourcePage
from web.http.pagination import paginate_queryset
from web.usages import ResourceUsages

VIEW_PERMISSION: Final = "core_secret_view"
EDIT_PERMISSION: Final = "core_secret_edit"
DELETE_PERMISSION: Final = "core_secret_delete"


def _get_secret(request: PageRequest, pk: int) -> Secret:
    return get_visible(request, VIEW_PERMISSION, Secret.objects.defer("value").select_related("scope"), pk=pk)


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
    secrets = list_visible(request, VIEW_PERMISSION, Secret.objects.defer("value").select_related("scope"))
    content = {
        "page": paginate_queryset(secrets, request),
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
        "uses": find_usages(secret, request.user),
        "rights": get_permissions(request.user, secret),
    }
    return render(request, "connectors/secrets/secret.html", content)


@method_decorator(sensitive_post_parameters(), name="dispatch")
class NewSecret(SecretPage, CreatePage[Secret]):
    """Create a secret."""

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
            **form.submitted_value,
        )


@method_decorator(sensitive_post_parameters(), name="dispatch")
class RotateSecret(SecretPage, FormPage[Secret]):
    """Replace the value of a secret; users of the secret get the new value with their next call."""

    template_name = "connectors/secrets/rotate.html"
    permission = EDIT_PERMISSION
    verb = "Rotate"
    button = "Rotate secret"
    form_class = SecretValueForm
    done = "Secret {name} rotated. Test the connectors that use it."

    def get_context(self, form: SecretValueForm) -> dict[str, Any]:
        return {"uses": find_usages(self.object, self.request.user)}

    def save(self, form: SecretValueForm) -> Secret:
        update_secret(actor=self.request.user, secret=self.object, **form.submitted_value)
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
