"""Pages of the second sign-in step and of password reset."""

from allauth.account.internal.stagekit import clear_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from accounts.authentication.adapters import render_sign_in_refusal
from accounts.authentication.passwords import get_user_by_reset_link, reset_password
from accounts.authentication.two_factor import enter_second_step, has_authenticator_app
from accounts.forms.account import (
    NewPasswordForm,
    PasswordResetRequestForm,
    SecondStepForm,
    get_client_address,
)
from accounts.tasks import send_password_reset
from guards.limits import RESETS_PER_ADDRESS
from rbac import usage_counts
from rbac.encryption import decrypt, encrypt
from web.forms.page_forms import get_posted_data
from web.forms.pages import require_get_or_post
from web.http.problems import TooManyRequests

RESET_LINK_SESSION_KEY = "new_password_link"


@never_cache
@sensitive_post_parameters()
@require_get_or_post
def second_step(request: HttpRequest) -> HttpResponse:
    """Check the code or passkey of the second sign-in step, after the password."""
    stage = enter_second_step(request)
    if stage is None:
        return redirect("sign-in")
    form = SecondStepForm(get_posted_data(request), person=stage.login.user, request=request)
    try:
        if request.method == "POST" and form.is_valid():
            return stage.exit()
    except TooManyRequests:
        # After too many guesses, sign-in starts again with the password.
        clear_login(request)
        raise
    content = {"form": form, "has_app": has_authenticator_app(stage.login.user)}
    return render(request, "accounts/second_step.html", content, status=form.http_status)


@never_cache
@require_get_or_post
def forgotten_password(request: HttpRequest) -> HttpResponse:
    """Send a reset link to an email address. The response does not reveal whether a user has it."""
    form = PasswordResetRequestForm(get_posted_data(request))
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/forgotten_password.html", {"form": form}, status=form.http_status)
    if not usage_counts.is_within_limit(
        "reset", get_client_address(request), at_most=RESETS_PER_ADDRESS, seconds=3600
    ):
        raise TooManyRequests("Too many reset links were requested from your address. Try again in an hour.")
    send_password_reset.delay(email=form.cleaned_data["email"])
    return render(request, "accounts/letter_sent.html", {"email": form.cleaned_data["email"]})


@never_cache
@require_safe
def new_password_link(request: HttpRequest, number: str, token: str) -> HttpResponse:
    """Store the token of a reset link in the session, and redirect to a URL without it."""
    if get_user_by_reset_link(number, token) is None:
        # No session: anybody could store one with each request.
        return _render_ended(request)
    # Encrypted, so that a leaked session table contains no usable link.
    request.session[RESET_LINK_SESSION_KEY] = encrypt(f"{number} {token}", RESET_LINK_SESSION_KEY)
    return redirect("new-password")


@never_cache
@sensitive_post_parameters()
@require_get_or_post
def new_password(request: HttpRequest) -> HttpResponse:
    """Set a new password for the user of a reset link."""
    sealed = request.session.get(RESET_LINK_SESSION_KEY)
    number, _, token = decrypt(sealed, RESET_LINK_SESSION_KEY).partition(" ") if sealed else ("", "", "")
    person = get_user_by_reset_link(number, token)
    if person is None:
        return _render_ended(request)
    form = NewPasswordForm(person, get_posted_data(request))
    if request.method == "POST" and form.is_valid():
        reset_password(person=person, password=form.cleaned_data["new_password1"])
        del request.session[RESET_LINK_SESSION_KEY]
        return render(request, "accounts/password_set.html")
    return render(request, "accounts/new_password.html", {"form": form}, status=form.http_status)


def _render_ended(request: HttpRequest) -> HttpResponse:
    return render_sign_in_refusal(request, "This link was already used or has expired. Request a new one.")
