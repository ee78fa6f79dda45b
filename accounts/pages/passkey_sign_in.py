"""Sign-in with a passkey: alone, or after the password."""

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from allauth.account.stages import LoginStageController
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from accounts.authentication.passkeys import (
    UNKNOWN_PASSKEY,
    PasskeyRefused,
    Purpose,
    begin_assertion,
    find_claimed_user,
    verify_assertion,
)
from accounts.authentication.two_factor import SecondFactorStage
from accounts.forms.account import get_client_address
from accounts.pages.sign_in import get_redirect_url, render_sign_in
from guards.limits import PASSKEY_ANSWER_CHARACTERS, PASSKEY_REQUESTS_PER_ADDRESS
from rbac import audit, usage_counts
from web.http.problems import TooManyRequests

NO_SCRIPT = "The browser sent no passkey. Signing in with one needs JavaScript."


@never_cache
@require_POST
def sign_in_options(request: HttpRequest) -> HttpResponse:
    """Return what the browser needs to offer the passkeys of whoever sits there."""
    _require_attempt(request)
    return JsonResponse(begin_assertion(request, Purpose.SIGN_IN, None))


@never_cache
@sensitive_post_parameters()
@require_POST
def sign_in_with_passkey(request: HttpRequest) -> HttpResponse:
    """Sign in the user that a passkey belongs to; it replaces password and second factor."""
    if request.user.is_authenticated:
        return HttpResponseRedirect(get_redirect_url(request))
    _require_attempt(request)
    assertion = request.POST.get("assertion", "")[:PASSKEY_ANSWER_CHARACTERS]
    user = find_claimed_user(assertion)
    if user is None:
        return render_sign_in(request, problem=UNKNOWN_PASSKEY if assertion else NO_SCRIPT, status=400)
    try:
        row = verify_assertion(request, Purpose.SIGN_IN, person=user, assertion=assertion)
    except PasskeyRefused as problem:
        audit.record_audit_entry(actor=None, action="user.sign_in_failed", thing=user)
        return render_sign_in(request, problem=problem.detail, status=400)
    record_authentication(request, user, "mfa", id=row.pk, type=row.type, passwordless=True)
    return perform_login(request, Login(user=user, redirect_url=get_redirect_url(request)))


@never_cache
@require_POST
def second_step_options(request: HttpRequest) -> HttpResponse:
    """Return what the browser needs to offer the passkeys of the user whose password was right."""
    stage = LoginStageController.enter(request, SecondFactorStage.key)
    if stage is None or stage.login.user is None:
        raise PasskeyRefused("This sign-in has expired. Start again with your password.")
    return JsonResponse(begin_assertion(request, Purpose.SECOND_STEP, stage.login.user))


def _require_attempt(request: HttpRequest) -> None:
    if not usage_counts.is_within_limit(
        "passkey", get_client_address(request), at_most=PASSKEY_REQUESTS_PER_ADDRESS
    ):
        raise TooManyRequests("Too many sign-ins from your address. Wait a minute, then try again.")
