"""Pages of invitations: list, creation, revocation, and acceptance by the invited person."""

from typing import Any

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.forms.invitations import DEFAULT_EXPIRY_DAYS, InvitationAcceptForm, InvitationForm
from accounts.invitation_mails import send_invitation
from accounts.pages.granted_roles import ROLE_REFUSED, explain_escalation
from rbac import operations
from rbac.models import Invitation, User
from rbac.operations.invitations import (
    accept_invitation,
    create_user_from_invitation,
    get_invitation_by_hash,
    get_invitation_by_token,
)
from rbac.policy import can_anywhere, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_get_or_post, require_sign_in
from web.forms.resource_pages import ConfirmPage, CreatePage, ResourcePage
from web.http.pagination import paginate_queryset

VIEW = "core_user_view"
MANAGE = "core_user_manage"
# The session stores the hash, so the token is in no Referer, no history and no session table.
INVITATION_SESSION_KEY = "invitation"
INVITATION_GONE_STATUS = 404


def _get_invitation(request: PageRequest, pk: int) -> Invitation:
    rows = Invitation.objects.select_related("scope", "role", "invited_by")
    return get_visible(request, VIEW, rows, pk=pk)


class InvitationPage(ResourcePage[Invitation]):
    """A page about an invitation."""

    load = staticmethod(_get_invitation)
    permission = MANAGE
    noun = "invitation"
    parents = (("Invitations", "invitations"),)

    def get_name(self) -> str:
        return f"invitation of {self.object.email}"


@require_sign_in
@require_safe
def invitations(request: PageRequest) -> HttpResponse:
    """List the invitations to the current scope and the scopes below it."""
    rows = Invitation.objects.select_related("scope", "role", "invited_by", "accepted_by")
    visible = list_visible(request, VIEW, rows)
    content = {"page": paginate_queryset(visible, request), "can_invite": can_anywhere(request.user, MANAGE)}
    return render(request, "accounts/invitations/list.html", content)


class NewInvitation(InvitationPage, CreatePage[Invitation]):
    """Invite a user by email."""

    form_class = InvitationForm
    title = "Invite user"
    button = "Send invitation"
    refusal_title = "Could not send the invitation"

    def save(self, form: InvitationForm) -> Invitation:
        data = form.cleaned_data
        with explain_escalation(ROLE_REFUSED, "role"):
            invitation, token = operations.create_invitation(
                actor=self.request.user,
                email=data["email"],
                scope=data["in_scope"],
                role=data["role"],
                days=data["days"],
            )
        _send_mail(self.request, invitation, token)
        return invitation


@require_sign_in
@require_POST
def send_invitation_again(request: PageRequest, pk: int) -> HttpResponse:
    """Send a new link that is valid from now on; the previous link becomes invalid."""
    invitation = _get_invitation(request, pk)
    require(request.user, MANAGE, invitation)
    try:
        renewed, token = operations.renew_invitation(
            actor=request.user, invitation=invitation, days=DEFAULT_EXPIRY_DAYS
        )
    except ValidationError as error:
        messages.error(request, error.messages[0])
    else:
        _send_mail(request, renewed, token)
    return redirect("invitations")


class RevokeInvitation(InvitationPage, ConfirmPage[Invitation]):
    """Revoke an invitation that is not accepted yet."""

    verb = "Revoke"
    done = "The {name} was revoked."

    def get_texts(self) -> list[str]:
        text = "The link stops working and no longer grants the role {} in <code>{}</code>."
        return [format_html(text, self.object.role.name, self.object.scope.path)]

    def perform(self, **values: Any) -> None:
        operations.revoke_invitation(actor=self.request.user, invitation=self.object)


def _send_mail(request: HttpRequest, invitation: Invitation, token: str) -> None:
    if send_invitation(invitation, token):
        messages.success(request, f"The invitation was sent to {invitation.email}.")
    else:
        messages.error(
            request,
            f"{invitation.email} is invited, but the email could not be sent. Ask an administrator to check "
            f"the email settings, then resend the invitation.",
        )


@never_cache
@require_safe
def open_invitation_link(request: HttpRequest, token: str) -> HttpResponse:
    """Store the hash of an invitation link in the session, and redirect to a URL without the token."""
    invitation = get_invitation_by_token(token)
    if invitation is None:
        return _render_ended(request)
    request.session[INVITATION_SESSION_KEY] = invitation.hash
    return redirect("join")


@sensitive_post_parameters("password", "again")
@never_cache
@require_get_or_post
def accept_invitation_page(request: HttpRequest) -> HttpResponse:
    """Show an open invitation, and accept it for the signed-in user or a new one."""
    invitation = get_invitation_by_hash(request.session.get(INVITATION_SESSION_KEY, ""))
    if invitation is None:
        return _render_ended(request)
    if isinstance(request.user, User):
        return _accept_and_redirect(request, invitation, request.user)
    form = InvitationAcceptForm(get_posted_data(request), email=invitation.email)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            person = create_user_from_invitation(
                invitation=invitation, username=data["username"], password=data["password"]
            )
        except ValidationError as error:
            form.add_problem(error)
        else:
            del request.session[INVITATION_SESSION_KEY]
            login = Login(user=person, redirect_url=resolve_url("/"))
            return perform_password_login(request, {"username": person.username}, login)
    content = {"form": form, "invitation": invitation}
    return render(request, "accounts/invitations/join.html", content, status=form.http_status)


def _accept_and_redirect(request: HttpRequest, invitation: Invitation, person: User) -> HttpResponse:
    refusal = ""
    if request.method == "POST":
        try:
            accept_invitation(person=person, invitation=invitation)
        except ValidationError as error:
            refusal = error.messages[0]
        else:
            del request.session[INVITATION_SESSION_KEY]
            return redirect(f"{resolve_url('/')}?scope={invitation.scope.path}")
    content = {"invitation": invitation, "refusal": refusal}
    return render(request, "accounts/invitations/accept.html", content, status=409 if refusal else 200)


def _render_ended(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/invitations/ended.html", status=INVITATION_GONE_STATUS)
