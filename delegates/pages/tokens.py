"""Pages of delegate tokens: list, detail, create, reveal, rename, revoke, delete."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from delegates.forms.delegates import NewTokenForm, RenameTokenForm
from delegates.models import DelegateToken
from delegates.operations import tokens as operations
from delegates.queries.delegates import get_revocation_impact, list_tokens_with_use
from rbac.policy import can_anywhere, get_permissions
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import (
    ConfirmPage,
    CreatePage,
    DeletePage,
    Notice,
    Obstacle,
    RenamePage,
    ResourcePage,
)
from web.http.pagination import paginate_queryset
from web.http.problems import Problem

VIEW: Final = "core_delegate_view"
EDIT: Final = "core_delegate_edit"
DELETE: Final = "core_delegate_delete"


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
    tokens = list_visible(request, VIEW, list_tokens_with_use())
    content = {"page": paginate_queryset(tokens, request), "can_add": can_anywhere(request.user, EDIT)}
    return render(request, "delegates/tokens/list.html", content)


@require_sign_in
@require_safe
def show_token(request: PageRequest, pk: int) -> HttpResponse:
    """Show a token with its usages, without its value."""
    return render(request, "delegates/tokens/token.html", _build_content(request, _get_token(request, pk)))


@require_sign_in
@never_cache
@require_POST
def reveal_token(request: PageRequest, pk: int) -> HttpResponse:
    """Show the value of a token once, and record the reader."""
    token = _get_token(request, pk)
    content = _build_content(request, token)
    try:
        content["value"] = operations.reveal_token(actor=request.user, token=token)
    except Problem as problem:
        content["refusal"] = problem.detail
    return render(
        request, "delegates/tokens/token.html", content, status=409 if "refusal" in content else 200
    )


class NewToken(TokenPage, CreatePage[DelegateToken]):
    """Create a token."""

    permission = EDIT
    form_class = NewTokenForm
    title = "New delegate token"
    here = "New token"
    done = "Token {name} created."

    def save(self, form: NewTokenForm) -> DelegateToken:
        data = form.cleaned_data
        return operations.create_token(
            actor=self.request.user, scope=data["in_scope"], name=data["name"], expires_at=form.expires_at
        )


class RenameToken(TokenPage, RenamePage[DelegateToken]):
    """Rename a token; its value does not change."""

    permission = EDIT
    form_class = RenameTokenForm
    hint = "Its value does not change, so delegates that use it stay connected."

    def save(self, form: RenameTokenForm) -> None:
        operations.rename_token(actor=self.request.user, token=self.object, name=form.cleaned_data["name"])


class RevokeToken(TokenPage, ConfirmPage[DelegateToken]):
    """Revoke a token and end its sessions."""

    permission = EDIT
    verb = "Revoke"
    text = "Registrations with this token are refused. You cannot undo this."
    done = "Token {name} revoked; {sessions}."

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
        advice = "To keep these delegates connected, assign another token first."
        return Notice("These sessions end immediately", [*lines, advice])

    def perform(self, **values: Any) -> None:
        self.ended = operations.revoke_token(actor=self.request.user, token=self.object)

    def get_done_message(self, name: str) -> str:
        sessions = f"{len(self.ended)} session{pluralize(len(self.ended))} ended"
        return self.done.format(name=name, sessions=sessions)


class DeleteToken(TokenPage, DeletePage[DelegateToken]):
    """Delete a revoked token."""

    permission = DELETE
    text = "It is revoked, so nothing uses it. The audit trail keeps who created and who revoked it."
    done = "Token {name} deleted."

    def get_obstacle(self) -> Obstacle | None:
        if self.object.status != DelegateToken.Status.ACTIVE:
            return None
        url = reverse("revoke-delegate-token", args=[self.object.pk])
        return Obstacle("Agents can still use it. Revoke it first, then delete it.", "Revoke token", url)

    def perform(self, **values: Any) -> None:
        operations.delete_token(actor=self.request.user, token=self.object)


def _build_content(request: PageRequest, token: DelegateToken) -> dict[str, Any]:
    return {
        "token": token,
        "losing": get_revocation_impact(token, request.user),
        "rights": get_permissions(request.user, token),
    }
