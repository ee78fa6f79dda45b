"""Pages of sign-in and sign-out."""

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.conf import settings
from django.contrib.auth import logout
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.authentication.passkeys import get_passkey_obstacle
from accounts.authentication.sessions import forget_session
from accounts.authentication.single_sign_on import is_single_sign_on_enabled
from accounts.forms.account import SignInForm
from rbac import audit
from rbac.models import User
from web.forms.pages import require_get_or_post

TOO_MANY_REQUESTS = 429


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
    if form.is_bound:
        _record_failure(form)
    status = TOO_MANY_REQUESTS if form.is_bound and form.is_throttled else 200
    return render_sign_in(request, form, status=status)


def render_sign_in(
    request: HttpRequest, form: SignInForm | None = None, *, problem: str = "", status: int = 200
) -> HttpResponse:
    """Render the sign-in page; `problem` says why another way than the form failed."""
    content = {
        "form": form or SignInForm(request),
        "problem": problem,
        "next": _get_requested_url(request),
        "provider": is_single_sign_on_enabled() and settings.OIDC_NAME,
        "takes_passkey": not get_passkey_obstacle(request),
    }
    return render(request, "accounts/sign_in.html", content, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session of this browser."""
    if isinstance(request.user, User):
        audit.record_audit_entry(actor=request.user, action="user.sign_out", thing=request.user)
    forget_session(request.session.session_key)
    logout(request)
    return HttpResponseRedirect(resolve_url(settings.LOGOUT_REDIRECT_URL))


def _record_failure(form: SignInForm) -> None:
    user = User.objects.filter(username=form.cleaned_data.get("username", "")).first()
    if user is not None:
        audit.record_audit_entry(actor=None, action="user.sign_in_failed", thing=user)


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
