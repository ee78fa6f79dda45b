"""Pages that accept an invitation."""

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from accounts.forms.invitations import InvitationAcceptForm
from rbac.models import Invitation, User
from rbac.operations.invitations import (
    accept_invitation,
    create_user_from_invitation,
    get_invitation_by_hash,
    get_invitation_by_token,
)
from web.forms.page_forms import get_posted_data
from web.forms.pages import require_get_or_post

# The session stores the hash, so the token is in no Referer, no history and no session table.
INVITATION_SESSION_KEY = "invitation"
INVITATION_GONE_STATUS = 404


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
