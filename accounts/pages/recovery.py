"""Coming in without the whole key: the second step of signing in, and a new password by e-mail."""

from typing import Final

from allauth.account.internal.stagekit import clear_login
from allauth.account.stages import LoginStageController
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.people import CodeForm, ForgottenPasswordForm, NewPasswordForm
from accounts.pages.account import address_of
from accounts.people.adapter import refused
from accounts.people.passwords import person_of_link, reset_password
from accounts.people.two_factor import SecondStep
from accounts.tasks import send_reset
from guards.limits import RESETS_PER_ADDRESS
from rbac import throttle
from rbac.encryption import decrypt, encrypt
from web.page_forms import posted
from web.problems import TooMany

GET_OR_POST: Final = ["GET", "HEAD", "POST"]
LINK = "new_password_link"


@never_cache
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def second_step(request: HttpRequest) -> HttpResponse:
    """Ask who gave the right password for a code."""
    stage = LoginStageController.enter(request, SecondStep.key)
    if stage is None or stage.login.user is None:
        return redirect("sign-in")
    form = CodeForm(posted(request), person=stage.login.user, address=address_of(request))
    try:
        if request.method == "POST" and form.is_valid():
            return stage.exit()
    except TooMany:
        # Whoever guesses begins with the password again.
        clear_login(request)
        raise
    return render(request, "accounts/second_step.html", {"form": form}, status=form.http_status)


@never_cache
@require_http_methods(GET_OR_POST)
def forgotten_password(request: HttpRequest) -> HttpResponse:
    """Take an e-mail address. What is answered is the same whether somebody has it or not."""
    form = ForgottenPasswordForm(posted(request))
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/forgotten_password.html", {"form": form}, status=form.http_status)
    if not throttle.few("reset", address_of(request), at_most=RESETS_PER_ADDRESS, seconds=3600):
        raise TooMany("Too many letters were asked for from your address. Try again in an hour.")
    send_reset.delay(email=form.cleaned_data["email"])
    return render(request, "accounts/letter_sent.html", {"email": form.cleaned_data["email"]})


@never_cache
@require_safe
def new_password_link(request: HttpRequest, number: str, token: str) -> HttpResponse:
    """Keep what a link says in the session, and go on to where no log and no page names it."""
    # Encrypted: who reads the table of sessions must not be able to follow it too.
    request.session[LINK] = encrypt(f"{number} {token}", LINK)
    return redirect("new-password")


@never_cache
@sensitive_post_parameters()
@require_http_methods(GET_OR_POST)
def new_password(request: HttpRequest) -> HttpResponse:
    """Let who came by a link set a new password."""
    kept = request.session.get(LINK)
    number, _, token = decrypt(kept, LINK).partition(" ") if kept else ("", "", "")
    person = person_of_link(number, token)
    if person is None:
        return refused(request, "This link was used already, or is too old. Ask for another one.")
    form = NewPasswordForm(person, posted(request))
    if request.method == "POST" and form.is_valid():
        reset_password(person=person, password=form.cleaned_data["new_password1"])
        del request.session[LINK]
        return render(request, "accounts/password_set.html")
    return render(request, "accounts/new_password.html", {"form": form}, status=form.http_status)
