"""Redirect to the identity provider, and its callback."""

import logging
import secrets
from typing import Any

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.providers.oauth2.utils import generate_code_challenge
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.authentication.adapters import render_sign_in_refusal
from accounts.authentication.oidc import (
    SignOnFailed,
    build_authorization_url,
    discover_endpoints,
    fetch_claims,
)
from accounts.authentication.sign_in_methods import is_single_sign_on_enabled
from accounts.authentication.single_sign_on import (
    get_or_create_user,
    link_identity,
    unlink_identity,
)
from accounts.forms.account import NewFactorForm
from accounts.pages.sign_in import get_redirect_url
from guards.limits import SIGN_ONS_PER_ADDRESS
from rbac import usage_counts
from rbac.models import User
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, require_get_or_post, require_sign_in
from web.http.problems import TooManyRequests

PROVIDER_ID = "oidc"
_log = logging.getLogger(__name__)


@never_cache
@require_safe
def begin_sign_on(request: HttpRequest) -> HttpResponse:
    """Redirect the browser to the provider.

    This is a link, because our content security policy limits form targets to this site. A foreign page that
    opens it only makes its visitor sign on.
    """
    if request.user.is_authenticated:
        return HttpResponseRedirect(get_redirect_url(request))
    try:
        return HttpResponseRedirect(_build_authorization_url(request, {"next": get_redirect_url(request)}))
    except SignOnFailed as problem:
        return _render_refusal(request, problem)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def link_account(request: PageRequest) -> HttpResponse:
    """Ask for a proof of identity, then show a link to the provider, whose account becomes the user's."""
    if not is_single_sign_on_enabled():
        raise Http404
    form = NewFactorForm(get_posted_data(request), person=request.user, request=request)
    content: dict[str, Any] = {"form": form, "name": settings.OIDC_NAME}
    if request.method == "POST" and form.is_valid():
        try:
            content["address"] = _build_authorization_url(request, {"link": request.user.pk})
        except SignOnFailed as problem:
            return _render_refusal(request, problem)
    return render(request, "accounts/link_sign_on.html", content, status=form.http_status)


@require_sign_in
@require_POST
def unlink_account(request: PageRequest) -> HttpResponse:
    """Unlink the provider's account from a user who can sign in without it."""
    try:
        unlink_identity(actor=request.user)
    except ValidationError as refusal:
        messages.error(request, refusal.messages[0])
    else:
        messages.success(request, f"Single sign-on is unlinked: {settings.OIDC_NAME}.")
    return redirect("account")


@never_cache
@require_safe
def handle_callback(request: HttpRequest) -> HttpResponse:
    """Handle the provider's callback, and sign its user in."""
    _require_attempt(request)
    state = statekit.unstash_state(request, provider_id=PROVIDER_ID, state_id=request.GET.get("state", ""))
    if state is None:
        return render_sign_in_refusal(
            request, "This sign-in has expired or was started in another browser. Start again."
        )
    try:
        return _complete_sign_on(request, state)
    except SignOnFailed as problem:
        return _render_refusal(request, problem)


def _complete_sign_on(request: HttpRequest, state: dict[str, Any]) -> HttpResponse:
    code = request.GET.get("code", "")
    if not code:
        raise SignOnFailed("The provider denied the sign-in.")
    claims = fetch_claims(
        code, callback=_process_callback(request), verifier=state["verifier"], nonce=state["nonce"]
    )
    if "link" in state:
        return _complete_link(request, state["link"], claims)
    return perform_login(request, Login(user=get_or_create_user(claims), redirect_url=state["next"]))


def _complete_link(request: HttpRequest, person: int, claims: dict[str, Any]) -> HttpResponse:
    if not isinstance(request.user, User) or request.user.pk != person:
        raise SignOnFailed("Another user signed in on this browser in the meantime. Start again.")
    link_identity(actor=request.user, claims=claims)
    messages.success(request, f"You can sign in with {settings.OIDC_NAME} now.")
    return redirect("account")


def _build_authorization_url(request: HttpRequest, state: dict[str, Any]) -> str:
    _require_attempt(request)
    challenge, nonce = generate_code_challenge(), secrets.token_urlsafe(24)
    stashed = {**state, "nonce": nonce, "verifier": challenge["code_verifier"]}
    endpoints = discover_endpoints()
    return build_authorization_url(
        endpoints,
        callback=_process_callback(request),
        state=statekit.stash_state(request, provider_id=PROVIDER_ID, state=stashed),
        nonce=nonce,
        challenge=challenge["code_challenge"].decode(),
    )


def _require_attempt(request: HttpRequest) -> None:
    if not is_single_sign_on_enabled():
        raise Http404
    if not usage_counts.is_within_limit(
        "sign-on", request.META.get("REMOTE_ADDR", ""), at_most=SIGN_ONS_PER_ADDRESS
    ):
        raise TooManyRequests("Too many sign-ins from your address. Wait a minute, then try again.")


def _process_callback(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("single-sign-on-callback"))


def _render_refusal(request: HttpRequest, problem: SignOnFailed) -> HttpResponse:
    _log.warning("Single sign-on failed: %s", problem)
    return render_sign_in_refusal(request, str(problem))
