"""Signing on with the provider: away to it, and back with what it says."""

import logging
import secrets
from typing import Any

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.providers.oauth2.utils import generate_code_challenge
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from accounts.pages.sign_in import target_of
from accounts.people.adapter import refused
from accounts.people.oidc import NotSignedOn, address_to_ask, claims_for, discover
from accounts.people.single_sign_on import is_offered, link_sign_on, sign_on, unlink_sign_on
from guards.limits import SIGN_ONS_PER_ADDRESS
from rbac import throttle
from rbac.models import User
from web.pages import PageRequest, page
from web.problems import TooMany

PROVIDER = "oidc"
_log = logging.getLogger(__name__)


@never_cache
@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider.

    A link and no form, for our policy lets forms lead to our own pages only; all that a foreign page wins by
    calling it is that its visitor is asked to sign on.
    """
    if request.user.is_authenticated:
        return HttpResponseRedirect(target_of(request))
    try:
        return HttpResponseRedirect(_address(request, {"next": target_of(request)}))
    except NotSignedOn as problem:
        return _refused(request, problem)


@page
@never_cache
@require_POST
def link(request: PageRequest) -> HttpResponse:
    """Show where to go on to, so that who is signed in may come in by the provider too."""
    try:
        address = _address(request, {"link": request.user.pk})
    except NotSignedOn as problem:
        return _refused(request, problem)
    return render(request, "accounts/link_sign_on.html", {"address": address, "name": settings.OIDC_NAME})


@page
@require_POST
def unlink(request: PageRequest) -> HttpResponse:
    """End signing on with the provider, for those who can still come in by password."""
    if not request.user.has_usable_password():
        messages.error(request, "Without single sign-on you could not sign in. Set a password first.")
    else:
        unlink_sign_on(actor=request.user)
        messages.success(request, f"You no longer sign on with {settings.OIDC_NAME}.")
    return redirect("account")


@never_cache
@require_safe
def callback(request: HttpRequest) -> HttpResponse:
    """Take what the provider says, and sign its person in."""
    _admit(request)
    state = statekit.unstash_state(request, provider_id=PROVIDER, state_id=request.GET.get("state", ""))
    if state is None:
        return refused(request, "This sign-in took too long, or began in another browser. Begin again.")
    try:
        return _signed_on(request, state)
    except NotSignedOn as problem:
        return _refused(request, problem)


def _signed_on(request: HttpRequest, state: dict[str, Any]) -> HttpResponse:
    code = request.GET.get("code", "")
    if not code:
        raise NotSignedOn("The provider did not let you in.")
    claims = claims_for(code, callback=_callback(request), verifier=state["verifier"], nonce=state["nonce"])
    if "link" in state:
        return _linked(request, state["link"], claims)
    return perform_login(request, Login(user=sign_on(claims), redirect_url=state["next"]))


def _linked(request: HttpRequest, person: int, claims: dict[str, Any]) -> HttpResponse:
    if not isinstance(request.user, User) or request.user.pk != person:
        raise NotSignedOn("Meanwhile somebody else signed in here. Begin again.")
    link_sign_on(actor=request.user, claims=claims)
    messages.success(request, f"You can sign in with {settings.OIDC_NAME} now.")
    return redirect("account")


def _address(request: HttpRequest, state: dict[str, Any]) -> str:
    _admit(request)
    challenge, nonce = generate_code_challenge(), secrets.token_urlsafe(24)
    kept = {**state, "nonce": nonce, "verifier": challenge["code_verifier"]}
    endpoints = discover()
    return address_to_ask(
        endpoints,
        callback=_callback(request),
        state=statekit.stash_state(request, provider_id=PROVIDER, state=kept),
        nonce=nonce,
        challenge=challenge["code_challenge"].decode(),
    )


def _admit(request: HttpRequest) -> None:
    if not is_offered():
        raise Http404
    if not throttle.few("sign-on", request.META.get("REMOTE_ADDR", ""), at_most=SIGN_ONS_PER_ADDRESS):
        raise TooMany("Too many sign-ins from your address. Wait a minute, then try again.")


def _callback(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("single-sign-on-callback"))


def _refused(request: HttpRequest, problem: NotSignedOn) -> HttpResponse:
    _log.warning("Single sign-on failed: %s", problem)
    return refused(request, str(problem))
