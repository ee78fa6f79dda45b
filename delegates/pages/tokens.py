"""Pages of delegate tokens: which there are, a new one, its value for who may see it, its revocation."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from delegates.forms.tokens import NewTokenForm, RenameTokenForm
from delegates.models import DelegateToken
from delegates.operations import tokens as operations
from delegates.queries.tokens import losing_with, tokens_with_use
from rbac.policy import can_anywhere, permissions_at, require
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
DELETE: Final = "core_delegate_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


@page
@require_safe
def tokens(request: PageRequest) -> HttpResponse:
    """This will list tokens without their values."""
    found = visible_here(request, VIEW, tokens_with_use())
    content = {"page": keyset(found, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "delegates/tokens/list.html", content)


@page
@require_safe
def token(request: PageRequest, pk: int) -> HttpResponse:
    """This will show what is known of a token beside its value, and who uses it."""
    return render(request, "delegates/tokens/token.html", _content(request, _found(request, pk)))


@page
@never_cache
@require_POST
def show_token(request: PageRequest, pk: int) -> HttpResponse:
    """This will show the value of a token once, and write down who asked."""
    found = _found(request, pk)
    content = _content(request, found)
    try:
        content["value"] = operations.reveal_token(actor=request.user, token=found)
    except Problem as problem:
        content["refusal"] = problem.detail
    return render(
        request, "delegates/tokens/token.html", content, status=409 if "refusal" in content else 200
    )


@page
@require_http_methods(GET_OR_POST)
def new_token(request: PageRequest) -> HttpResponse:
    """This will make a token."""
    form = NewTokenForm(posted(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_token(
                actor=request.user, scope=given["in_scope"], name=given["name"], expires_at=form.expires_at
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"The token {made.name} can be used now.")
            return redirect("delegate-token", pk=made.pk)
    return render(request, "delegates/tokens/new.html", {"form": form}, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def rename_token(request: PageRequest, pk: int) -> HttpResponse:
    """This will give a token another name; its value stays."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    form = RenameTokenForm(posted(request), initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            operations.rename_token(actor=request.user, token=found, name=form.cleaned_data["name"])
        except Problem as problem:
            form.refuse(problem)
        else:
            return redirect("delegate-token", pk=pk)
    # The form wrote its name on the row; the page goes on to show the one that counts.
    content = {"form": form, "token": _found(request, pk)}
    return render(request, "delegates/tokens/rename.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def revoke_token(request: PageRequest, pk: int) -> HttpResponse:
    """This will name who loses a session, then revoke the token."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    if request.method == "POST":
        ended = operations.revoke_token(actor=request.user, token=found)
        sessions = f"{len(ended)} session{'' if len(ended) == 1 else 's'} ended"
        messages.success(request, f"The token {found.name} is revoked; {sessions}.")
        return redirect("delegate-token", pk=pk)
    content = {"token": found, "losing": losing_with(found, request.user)}
    return render(request, "delegates/tokens/revoke.html", content)


@page
@require_http_methods(GET_OR_POST)
def remove_token(request: PageRequest, pk: int) -> HttpResponse:
    """This will forget a revoked token."""
    found = _found(request, pk)
    require(request.user, DELETE, found)
    refusal = ""
    if request.method == "POST":
        try:
            operations.delete_token(actor=request.user, token=found)
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"The token {found.name} is deleted.")
            return redirect("delegate-tokens")
    content = {"token": found, "refusal": refusal}
    return render(request, "delegates/tokens/delete.html", content, status=409 if refusal else 200)


def _content(request: PageRequest, found: DelegateToken) -> dict[str, Any]:
    return {
        "token": found,
        "losing": losing_with(found, request.user),
        "rights": permissions_at(request.user, found),
    }


def _found(request: PageRequest, pk: int) -> DelegateToken:
    return get_visible(request, VIEW, tokens_with_use(), pk=pk)
