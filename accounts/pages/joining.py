"""What an invitation's link leads to: somebody signs in or becomes somebody, and has the role."""

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.invitations import JoinForm
from rbac.models import Invitation, User
from rbac.operations.invitations import accept_invitation, invitation_of_hash, invitation_of_token, join
from web.page_forms import posted

# The hash waits in the session: no Referer and no history has the token, and no table of sessions either.
KEPT = "invitation"
GONE = 404


@never_cache
@require_safe
def join_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """This will remember whom a link is for, and go on without it in the address."""
    invitation = invitation_of_token(token)
    if invitation is None:
        return _ended(request)
    request.session[KEPT] = invitation.hash
    return redirect("join")


@sensitive_post_parameters("password", "again")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join_here(request: HttpRequest) -> HttpResponse:
    """This will show what waits, and give it to who is signed in, or to who is new here."""
    invitation = invitation_of_hash(request.session.get(KEPT, ""))
    if invitation is None:
        return _ended(request)
    if isinstance(request.user, User):
        return _accept(request, invitation, request.user)
    form = JoinForm(posted(request), email=invitation.email)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            person = join(invitation=invitation, username=given["username"], password=given["password"])
        except ValidationError as error:
            form.refuse(error)
        else:
            del request.session[KEPT]
            login = Login(user=person, redirect_url=resolve_url("/"))
            return perform_password_login(request, {"username": person.username}, login)
    content = {"form": form, "invitation": invitation}
    return render(request, "accounts/invitations/join.html", content, status=form.http_status)


def _accept(request: HttpRequest, invitation: Invitation, person: User) -> HttpResponse:
    refusal = ""
    if request.method == "POST":
        try:
            accept_invitation(person=person, invitation=invitation)
        except ValidationError as error:
            refusal = error.messages[0]
        else:
            del request.session[KEPT]
            return redirect(f"{resolve_url('/')}?scope={invitation.scope.path}")
    content = {"invitation": invitation, "refusal": refusal}
    return render(request, "accounts/invitations/accept.html", content, status=409 if refusal else 200)


def _ended(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/invitations/ended.html", status=GONE)
