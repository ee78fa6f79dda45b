"""Pages of sign-in, with a password or a passkey, and sign-out."""

from allauth.account.internal.flows.login import perform_login, perform_password_login, record_authentication
from allauth.account.models import Login
from django.conf import settings
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.authentication.passkeys import (
    UNKNOWN_PASSKEY,
    PasskeyRefused,
    Purpose,
    begin_assertion,
    find_claimed_user,
    get_passkey_obstacle,
    verify_assertion,
)
from accounts.authentication.sessions import forget_session
from accounts.authentication.sign_in_methods import is_single_sign_on_enabled
from accounts.authentication.two_factor import enter_second_step
from accounts.forms.account import SignInForm, get_client_address
from guards.limits import PASSKEY_ANSWER_CHARACTERS, PASSKEY_REQUESTS_PER_ADDRESS
from rbac import audit, usage_counts
from rbac.models import User
from web.forms.pages import require_get_or_post
from web.http.problems import TooManyRequests

TOO_MANY_REQUESTS = 429
NO_SCRIPT = "The browser sent no passkey. Signing in with one needs JavaScript."


@sensitive_post_parameters("password")
@never_cache
@require_get_or_post
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in form, or check the credentials and redirect to the requested page."""
    if request.method != "POST" and request.user.is_authenticated:
        return HttpResponseRedirect(get_redirect_url(request))
    form = SignInForm(request, data=request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        user: User = form.get_user()
        login = Login(user=user, redirect_url=get_redirect_url(request))
        return perform_password_login(request, {"username": user.username}, login)
    is_throttled = form.is_bound and form.is_throttled
    # The audit trail is kept for good: who goes on in spite of the limit would fill it.
    if form.is_bound and not is_throttled:
        _record_failure(form)
    status = TOO_MANY_REQUESTS if is_throttled else 200
    return render_sign_in(request, form, status=status)


def render_sign_in(
    request: HttpRequest, form: SignInForm | None = None, *, problem: str = "", status: int = 200
) -> HttpResponse:
    """Render the sign-in page; `problem` says why another way than the form failed."""
    content = {
        "form": form or SignInForm(request),
        "problem": problem,
        "next": _get_requested_url(request),
        "is_unsent": "unsent" in request.GET,
        "provider": is_single_sign_on_enabled() and settings.OIDC_NAME,
        "takes_passkey": not get_passkey_obstacle(request),
    }
    return render(request, "accounts/sign_in.html", content, status=status)


def _record_failure(form: SignInForm) -> None:
    user = User.objects.get_by_sign_in_name(form.cleaned_data.get("username", ""))
    if user is not None:
        audit.record_audit_entry(actor=None, action="user.sign_in_failed", thing=user)


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
    stage = enter_second_step(request)
    if stage is None:
        raise PasskeyRefused("This sign-in has expired. Start again with your password.")
    return JsonResponse(begin_assertion(request, Purpose.SECOND_STEP, stage.login.user))


def _require_attempt(request: HttpRequest) -> None:
    if not usage_counts.is_within_limit(
        "passkey", get_client_address(request), at_most=PASSKEY_REQUESTS_PER_ADDRESS
    ):
        raise TooManyRequests("Too many sign-ins from your address. Wait a minute, then try again.")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session of this browser."""
    if isinstance(request.user, User):
        audit.record_audit_entry(actor=request.user, action="user.sign_out", thing=request.user)
    forget_session(request.session.session_key)
    logout(request)
    return HttpResponseRedirect(resolve_url(settings.LOGOUT_REDIRECT_URL))


def get_redirect_url(request: HttpRequest) -> str:
    """Return the page to redirect to after sign-in."""
    return _get_requested_url(request) or resolve_url(settings.LOGIN_REDIRECT_URL)


def _get_requested_url(request: HttpRequest) -> str:
    """Return the requested page if it is on this site: an open redirect would help phishing."""
    url = request.POST.get("next", "") or request.GET.get("next", "")
    own = url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure())
    return url if own else ""


def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Redirect the sign-in page of the admin site to ours, which limits failed attempts."""
    if request.user.is_authenticated:
        raise PermissionDenied("Your user cannot use the admin site.")
    return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{request.GET.urlencode()}")


@require_safe
def admin_password(request: HttpRequest) -> HttpResponse:
    """Redirect the password page of the admin site to ours, which limits failed attempts."""
    return redirect("change-password")
