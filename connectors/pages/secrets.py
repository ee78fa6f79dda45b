"""Pages of secrets: which there are, a new one, a new value, a deletion; never what they are."""

from typing import Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from connectors.forms.secrets import NewSecretForm, RenameSecretForm, SecretValueForm
from connectors.models import Secret
from connectors.operations import create_secret, delete_secret, update_secret
from connectors.uses import uses_of
from rbac.policy import can_anywhere, permissions_at, require
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_secret_view"
EDIT: Final = "core_secret_edit"
DELETE: Final = "core_secret_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


@page
@require_safe
def secrets(request: PageRequest) -> HttpResponse:
    """This will list secrets without their values."""
    found = visible_here(request, VIEW, Secret.objects.defer("value").select_related("scope"))
    content = {"page": keyset(found, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "connectors/secrets/list.html", content)


@page
@require_safe
def secret(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what is known of a secret beside its value, and what uses it."""
    found = _found(request, pk)
    content = {
        "secret": found,
        "uses": uses_of(found, request.user),
        "rights": permissions_at(request.user, found),
    }
    return render(request, "connectors/secrets/secret.html", content)


@page
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def new_secret(request: PageRequest) -> HttpResponse:
    """This will keep a new secret."""
    form = NewSecretForm(
        posted(request), request.FILES or None, person=request.user, scope=request.current_scope
    )
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = create_secret(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                name=given["name"],
                **form.value_given,
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"The secret {made.name} is kept.")
            return redirect("secret", pk=made.pk)
    return render(request, "connectors/secrets/new.html", {"form": form}, status=form.http_status)


@page
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def rotate_secret(request: PageRequest, pk: int) -> HttpResponse:
    """This will replace the value of a secret; what uses it has the new one with its next call."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    form = SecretValueForm(posted(request), request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            update_secret(actor=request.user, secret=found, **form.value_given)
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{found.name} has a new value. Test the connectors that use it.")
            return redirect("secret", pk=pk)
    content = {"form": form, "secret": found, "uses": uses_of(found, request.user)}
    return render(request, "connectors/secrets/rotate.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def rename_secret(request: PageRequest, pk: int) -> HttpResponse:
    """This will give a secret another name; its identifier stays."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    form = RenameSecretForm(posted(request), initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            update_secret(actor=request.user, secret=found, name=form.cleaned_data["name"])
        except Problem as problem:
            form.refuse(problem)
        else:
            return redirect("secret", pk=pk)
    content = {"form": form, "secret": found}
    return render(request, "connectors/secrets/rename.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def remove_secret(request: PageRequest, pk: int) -> HttpResponse:
    """This will forget a secret that nothing uses."""
    found = _found(request, pk)
    require(request.user, DELETE, found)
    refusal = ""
    if request.method == "POST":
        try:
            delete_secret(actor=request.user, secret=found)
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"The secret {found.name} is deleted.")
            return redirect("secrets")
    content = {"secret": found, "uses": uses_of(found, request.user), "refusal": refusal}
    return render(request, "connectors/secrets/delete.html", content, status=409 if refusal else 200)


def _found(request: PageRequest, pk: int) -> Secret:
    return get_visible(request, VIEW, Secret.objects.defer("value").select_related("scope"), pk=pk)
