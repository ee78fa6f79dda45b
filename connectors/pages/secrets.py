"""Pages of secrets: list, detail, create, rotate, rename, delete."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from connectors.forms.secrets import NewSecretForm, RenameSecretForm, SecretValueForm
from connectors.models import Secret
from connectors.operations import create_secret, delete_secret, update_secret
from connectors.usages import ResourceUsages, find_usages
from rbac.policy import can_anywhere, get_permissions, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import DeletePage, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW_PERMISSION: Final = "core_secret_view"
EDIT_PERMISSION: Final = "core_secret_edit"
DELETE_PERMISSION: Final = "core_secret_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


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
    found = list_visible(request, VIEW_PERMISSION, Secret.objects.defer("value").select_related("scope"))
    content = {
        "page": paginate_queryset(found, request),
        "can_add": can_anywhere(request.user, EDIT_PERMISSION),
    }
    return render(request, "connectors/secrets/list.html", content)


@require_sign_in
@require_safe
def show_secret(request: PageRequest, pk: int) -> HttpResponse:
    """Show what is known of a secret beside its value, and what uses it."""
    found = _get_secret(request, pk)
    content = {
        "secret": found,
        "uses": find_usages(found, request.user),
        "rights": get_permissions(request.user, found),
    }
    return render(request, "connectors/secrets/secret.html", content)


@require_sign_in
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def new_secret(request: PageRequest) -> HttpResponse:
    """Keep a new secret."""
    form = NewSecretForm(
        get_posted_data(request), request.FILES or None, person=request.user, scope=request.current_scope
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = create_secret(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                name=given["name"],
                **form.submitted_value,
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"The secret {made.name} is created.")
            return redirect("secret", pk=made.pk)
    return render(request, "connectors/secrets/new.html", {"form": form}, status=form.http_status)


@require_sign_in
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def rotate_secret(request: PageRequest, pk: int) -> HttpResponse:
    """Replace the value of a secret; what uses it has the new one with its next call."""
    found = _get_secret(request, pk)
    require(request.user, EDIT_PERMISSION, found)
    form = SecretValueForm(get_posted_data(request), request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            update_secret(actor=request.user, secret=found, **form.submitted_value)
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{found.name} is rotated. Test the connectors that use it.")
            return redirect("secret", pk=pk)
    content = {"form": form, "secret": found, "uses": find_usages(found, request.user)}
    return render(request, "connectors/secrets/rotate.html", content, status=form.http_status)


@require_sign_in
@require_http_methods(GET_OR_POST)
def rename_secret(request: PageRequest, pk: int) -> HttpResponse:
    """Give a secret another name; its identifier stays."""
    found = _get_secret(request, pk)
    require(request.user, EDIT_PERMISSION, found)
    form = RenameSecretForm(get_posted_data(request), initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            update_secret(actor=request.user, secret=found, name=form.cleaned_data["name"])
        except Problem as problem:
            form.add_problem(problem)
        else:
            return redirect("secret", pk=pk)
    content = {"form": form, "secret": found}
    return render(request, "connectors/secrets/rename.html", content, status=form.http_status)


class DeleteSecret(SecretPage, DeletePage[Secret]):
    """Delete a secret that nothing uses."""

    permission = DELETE_PERMISSION
    text = "Nothing uses it. Its value cannot be restored."
    done = "The secret {name} is deleted."

    def get_usages(self) -> ResourceUsages:
        return find_usages(self.object, self.request.user)

    def perform(self, **given: Any) -> None:
        delete_secret(actor=self.request.user, secret=self.object)
