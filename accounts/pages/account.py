"""Pages of a user's own account: profile, password, second factor, sessions."""

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from accounts.authentication import two_factor
from accounts.authentication.passwords import change_password
from accounts.authentication.profiles import update_profile
from accounts.authentication.sessions import (
    end_other_sessions,
    end_session,
    keep_session,
    list_user_sessions,
)
from accounts.authentication.sign_in_methods import (
    NO_OTHER_SIGN_IN,
    has_other_sign_in,
    is_linked,
    is_single_sign_on_enabled,
)
from accounts.forms.account import (
    ChangePasswordForm,
    ProfileForm,
    ReauthenticationForm,
    TwoFactorEnableForm,
    get_client_address,
)
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, require_get_or_post, require_sign_in

PENDING_SECRET_KEY = "pending_second_factor"  # noqa: S105 - no password


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def account(request: PageRequest) -> HttpResponse:
    """Show the user's profile, and save changes to it."""
    form = ProfileForm(get_posted_data(request), person=request.user, address=get_client_address(request))
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        names = ("first_name", "last_name", "email")
        update_profile(actor=request.user, **{name: data[name] for name in names})
        messages.success(request, "Saved.")
        return redirect("account")
    content = {
        "form": form,
        "factors": two_factor.summarize_factors(request.user),
        "provider": is_single_sign_on_enabled() and settings.OIDC_NAME,
        "is_linked": is_linked(request.user),
        "unlink_advice": "" if has_other_sign_in(request.user) else NO_OTHER_SIGN_IN,
        "has_password": request.user.has_usable_password(),
    }
    return render(request, "accounts/account/account.html", content, status=form.http_status)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def password(request: PageRequest) -> HttpResponse:
    """Change the user's password."""
    if not request.user.has_usable_password():
        raise Http404
    form = ChangePasswordForm(request.user, get_posted_data(request), address=get_client_address(request))
    if request.method == "POST" and form.is_valid():
        change_password(actor=request.user, password=form.cleaned_data["new_password1"])
        keep_session(request, request.user)
        messages.success(request, "Your password was changed. All your other sessions were signed out.")
        return redirect("account")
    return render(request, "accounts/account/password.html", {"form": form}, status=form.http_status)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def second_factor(request: PageRequest) -> HttpResponse:
    """Show the state of two-factor authentication, or set it up with the first code of an app."""
    if two_factor.has_authenticator_app(request.user):
        return _render_app(request, ReauthenticationForm(person=request.user, request=request))
    form = TwoFactorEnableForm(get_posted_data(request), person=request.user, request=request)
    sealed = request.session.get(PENDING_SECRET_KEY) or two_factor.create_encrypted_secret()
    request.session[PENDING_SECRET_KEY] = sealed
    secret = two_factor.decrypt_secret(sealed)
    if request.method == "POST" and form.is_valid():
        codes = two_factor.enable_two_factor(
            actor=request.user, secret=secret, code=form.cleaned_data["code"]
        )
        if codes is not None:
            del request.session[PENDING_SECRET_KEY]
            if not codes:
                messages.success(request, "The authenticator app was added.")
                return redirect("account")
            return render(request, "accounts/account/codes.html", {"codes": codes, "is_new": True})
        form.add_error("code", "This code is wrong. Check the clock of your device.")
    picture = two_factor.render_qr_code(request.user, secret)
    content = {"form": form, "secret": secret, "picture": picture}
    return render(request, "accounts/account/turn_on.html", content, status=form.http_status)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_POST
def turn_off(request: PageRequest) -> HttpResponse:
    """Remove the authenticator app; without another second factor, sign-in asks for the password alone."""
    if not two_factor.has_authenticator_app(request.user):
        return redirect("second-factor")
    form = ReauthenticationForm(get_posted_data(request), person=request.user, request=request)
    if not form.is_valid():
        return _render_app(request, form)
    two_factor.remove_authenticator_app(actor=request.user)
    is_on = two_factor.has_two_factor(request.user)
    state = "Sign-in still asks for a passkey." if is_on else "Two-factor authentication is off."
    messages.success(request, f"The authenticator app was removed. {state}")
    return redirect("account")


def _render_app(request: PageRequest, form: ReauthenticationForm) -> HttpResponse:
    content = {"factors": two_factor.summarize_factors(request.user), "form": form}
    return render(request, "accounts/account/two_factor.html", content, status=form.http_status)


@require_sign_in
@never_cache
@sensitive_post_parameters()
@require_get_or_post
def renew_codes(request: PageRequest) -> HttpResponse:
    """Ask for a proof of identity, then create recovery codes, and show them once."""
    if not two_factor.has_two_factor(request.user):
        return redirect("account")
    form = ReauthenticationForm(get_posted_data(request), person=request.user, request=request)
    if request.method == "POST" and form.is_valid():
        codes = two_factor.renew_recovery_codes(actor=request.user)
        return render(request, "accounts/account/codes.html", {"codes": codes})
    content = {"factors": two_factor.summarize_factors(request.user), "form": form}
    return render(request, "accounts/account/recovery_codes.html", content, status=form.http_status)


@require_sign_in
@never_cache
@require_safe
def sessions(request: PageRequest) -> HttpResponse:
    """List the user's sessions."""
    content = {"sessions": list_user_sessions(request.user, request.session.session_key)}
    return render(request, "accounts/account/sessions.html", content)


@require_sign_in
@require_POST
def end_one_session(request: PageRequest, pk: int) -> HttpResponse:
    """End another session of the user."""
    if not end_session(actor=request.user, pk=pk):
        raise Http404
    messages.success(request, "The session was signed out.")
    return redirect("sessions")


@require_sign_in
@require_POST
def end_sessions(request: PageRequest) -> HttpResponse:
    """End all other sessions of the user."""
    count = end_other_sessions(actor=request.user, current=request.session.session_key)
    messages.success(request, f"All other sessions were signed out ({count}).")
    return redirect("sessions")
