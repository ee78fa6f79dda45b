"""A person's own account: name, password, second factor, sessions."""

from typing import Final

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.forms.people import ChangePasswordForm, ProfileForm, ProofForm, TurnOnForm
from accounts.people import two_factor
from accounts.people.passwords import change_password
from accounts.people.profile import update_profile
from accounts.people.sessions import end_other_sessions, end_session, sessions_of
from accounts.people.single_sign_on import is_offered
from web.page_forms import posted
from web.pages import PageRequest, page

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
PENDING = "pending_second_factor"


@page
@never_cache
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def account(request: PageRequest) -> HttpResponse:
    """Show who one is here, and let one change it."""
    form = ProfileForm(posted(request), person=request.user, address=address_of(request))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        names = ("first_name", "last_name", "email")
        update_profile(actor=request.user, **{name: given[name] for name in names})
        messages.success(request, "Saved.")
        return redirect("account")
    content = {
        "form": form,
        "has_two_factor": two_factor.has_two_factor(request.user),
        "provider": is_offered() and settings.OIDC_NAME,
        "is_linked": SocialAccount.objects.filter(user=request.user).exists(),
        "has_password": request.user.has_usable_password(),
    }
    return render(request, "accounts/account/account.html", content, status=form.http_status)


@page
@never_cache
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def password(request: PageRequest) -> HttpResponse:
    """Let one change the password."""
    if not request.user.has_usable_password():
        raise Http404
    form = ChangePasswordForm(request.user, posted(request), address=address_of(request))
    if request.method == "POST" and form.is_valid():
        change_password(actor=request.user, password=form.cleaned_data["new_password1"])
        update_session_auth_hash(request, request.user)
        messages.success(request, "Your password is changed. All your other sessions have ended.")
        return redirect("account")
    return render(request, "accounts/account/password.html", {"form": form}, status=form.http_status)


@page
@never_cache
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def second_factor(request: PageRequest) -> HttpResponse:
    """Show that signing in takes a code, or else what an app has to be told, and take the first one."""
    if two_factor.has_two_factor(request.user):
        content = {
            "codes_left": two_factor.codes_left(request.user),
            "form": ProofForm(person=request.user, address=""),
        }
        return render(request, "accounts/account/two_factor.html", content)
    form = TurnOnForm(posted(request), person=request.user, address=address_of(request))
    sealed = request.session.get(PENDING) or two_factor.sealed_secret()
    request.session[PENDING] = sealed
    secret = two_factor.opened(sealed)
    if request.method == "POST" and form.is_valid():
        codes = two_factor.turn_on(actor=request.user, secret=secret, code=form.cleaned_data["code"])
        if codes is not None:
            del request.session[PENDING]
            return render(request, "accounts/account/codes.html", {"codes": codes, "is_new": True})
        form.add_error("code", "This code is wrong. Check that the clock of the device is right.")
    picture = two_factor.picture_of(request.user, secret)
    content = {"form": form, "secret": secret, "picture": picture}
    return render(request, "accounts/account/turn_on.html", content, status=form.http_status)


@page
@never_cache
@sensitive_post_parameters()
@require_POST
def turn_off(request: PageRequest) -> HttpResponse:
    """Ask for no code any more."""
    return _proved(request, "off")


@page
@never_cache
@sensitive_post_parameters()
@require_POST
def renew_codes(request: PageRequest) -> HttpResponse:
    """Show new recovery codes, this once."""
    return _proved(request, "codes")


def _proved(request: PageRequest, wanted: str) -> HttpResponse:
    if not two_factor.has_two_factor(request.user):
        return redirect("second-factor")
    form = ProofForm(posted(request), person=request.user, address=address_of(request))
    if not form.is_valid():
        content = {"codes_left": two_factor.codes_left(request.user), "form": form}
        return render(request, "accounts/account/two_factor.html", content, status=form.http_status)
    if wanted == "codes":
        codes = two_factor.renew_codes(actor=request.user)
        return render(request, "accounts/account/codes.html", {"codes": codes})
    two_factor.turn_off(actor=request.user, person=request.user)
    messages.success(request, "Signing in takes no code any more.")
    return redirect("account")


@page
@never_cache
@require_safe
def sessions(request: PageRequest) -> HttpResponse:
    """List where one is signed in."""
    content = {"sessions": sessions_of(request.user, request.session.session_key)}
    return render(request, "accounts/account/sessions.html", content)


@page
@require_POST
def end_one_session(request: PageRequest, pk: int) -> HttpResponse:
    """Sign out in one other place."""
    if not end_session(actor=request.user, pk=pk):
        raise Http404
    messages.success(request, "That session has ended.")
    return redirect("sessions")


@page
@require_POST
def end_sessions(request: PageRequest) -> HttpResponse:
    """Sign out everywhere else."""
    count = end_other_sessions(actor=request.user, current=request.session.session_key)
    messages.success(request, f"You are signed out everywhere else ({count}).")
    return redirect("sessions")


def address_of(request: HttpRequest) -> str:
    """Where the request came from; failures are counted by it."""
    return str(request.META.get("REMOTE_ADDR", ""))
