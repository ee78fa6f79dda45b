"""Pages of delegate tokens: list, detail, create, reveal, rename, revoke, delete."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from delegates.forms.delegates import NewTokenForm, RenameTokenForm
from delegates.models import DelegateToken
from delegates.operations import tokens as operations
from delegates.queries.delegates import get_revocation_impact, list_tokens_with_use
from rbac.policy import can_anywhere, get_permissions, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import ConfirmPage, DeletePage, Notice, Obstacle, ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
DELETE: Final = "core_delegate_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


def _get_token(request: PageRequest, pk: int) -> DelegateToken:
    return get_visible(request, VIEW, list_tokens_with_use(), pk=pk)


class TokenPage(ResourcePage[DelegateToken]):
    """A page about a delegate token."""

    load = staticmethod(_get_token)
    noun = "token"
    parents = (("Delegates", "delegates"), ("Tokens", "delegate-tokens"))
    detail = "delegate-token"


@require_sign_in
@require_safe
def list_tokens(request: PageRequest) -> HttpResponse:
    """List tokens without their values."""
    found = list_visible(request, VIEW, list_tokens_with_use())
    content = {"page": paginate_queryset(found, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "delegates/tokens/list.html", content)


@require_sign_in
@require_safe
def show_token(request: PageRequest, pk: int) -> HttpResponse:
    """Show the details and the users of a token, without its value."""
    return render(request, "delegates/tokens/token.html", _content(request, _get_token(request, pk)))


@require_sign_in
@never_cache
@require_POST
def reveal_token(request: PageRequest, pk: int) -> HttpResponse:
    """Show the value of a token once, and record the reader."""
    found = _get_token(request, pk)
    content = _content(request, found)
    try:
        content["value"] = operations.reveal_token(actor=request.user, token=found)
    except Problem as problem:
        content["refusal"] = problem.detail
    return render(
        request, "delegates/tokens/token.html", content, status=409 if "refusal" in content else 200
    )


@require_sign_in
@require_http_methods(GET_OR_POST)
def create_token(request: PageRequest) -> HttpResponse:
    """Make a token."""
    form = NewTokenForm(get_posted_data(request), person=request.user, scope=request.current_scope)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_token(
                actor=request.user, scope=given["in_scope"], name=given["name"], expires_at=form.expires_at
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"The token {made.name} is created.")
            return redirect("delegate-token", pk=made.pk)
    return render(request, "delegates/tokens/new.html", {"form": form}, status=form.http_status)


@require_sign_in
@require_http_methods(GET_OR_POST)
def rename_token(request: PageRequest, pk: int) -> HttpResponse:
    """Give a token another name; its value stays."""
    found = _get_token(request, pk)
    require(request.user, EDIT, found)
    form = RenameTokenForm(get_posted_data(request), initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            operations.rename_token(actor=request.user, token=found, name=form.cleaned_data["name"])
        except Problem as problem:
            form.add_problem(problem)
        else:
            return redirect("delegate-token", pk=pk)
    # The form wrote its name on the row; the page goes on to show the one that counts.
    content = {"form": form, "token": _get_token(request, pk)}
    return render(request, "delegates/tokens/rename.html", content, status=form.http_status)


class RevokeToken(TokenPage, ConfirmPage[DelegateToken]):
    """Revoke a token, which ends the sessions that were opened with it."""

    permission = EDIT
    verb = "Revoke"
    participle = "revoked"
    text = "Registrations with this token are refused. You cannot undo this."
    done = "The token {name} is revoked; {sessions}."

    def get_notice(self) -> Notice | None:
        impact = get_revocation_impact(self.object, self.request.user)
        if not impact:
            return None
        lines = [
            f"{delegate.name}: {', '.join(instance.hostname or instance.key for instance in instances)}"
            for delegate, instances in impact.delegates
        ]
        if impact.hidden:
            lines.append(f"{impact.hidden} instance{pluralize(impact.hidden)} that you cannot view")
        advice = "To keep these delegates connected, give them another token first."
        return Notice("These sessions end immediately", [*lines, advice])

    def perform(self, **given: Any) -> None:
        self.ended = operations.revoke_token(actor=self.request.user, token=self.object)

    def get_done_message(self, name: str) -> str:
        sessions = f"{len(self.ended)} session{pluralize(len(self.ended))} ended"
        return self.done.format(name=name, sessions=sessions)


class DeleteToken(TokenPage, DeletePage[DelegateToken]):
    """Delete a revoked token."""

    permission = DELETE
    text = "It is revoked, so nothing uses it. The audit trail keeps who created and who revoked it."
    done = "The token {name} is deleted."

    def get_obstacle(self) -> Obstacle | None:
        if self.object.status != DelegateToken.Status.ACTIVE:
            return None
        url = reverse("revoke-delegate-token", args=[self.object.pk])
        return Obstacle("Agents can still use it. Revoke it first, then delete it.", "Revoke token", url)

    def perform(self, **given: Any) -> None:
        operations.delete_token(actor=self.request.user, token=self.object)


def _content(request: PageRequest, found: DelegateToken) -> dict[str, Any]:
    return {
        "token": found,
        "losing": get_revocation_impact(found, request.user),
        "rights": get_permissions(request.user, found),
    }
