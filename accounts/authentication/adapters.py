"""Adapters of the sign-in library for sign-in steps and second factors."""

from ipaddress import ip_address
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.webauthn.internal.flows import did_use_passwordless_login
from django.contrib.auth import login
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url

from accounts.authentication.sessions import begin_session
from rbac import audit
from rbac.encryption import SECOND_FACTOR_CONTEXT, decrypt, encrypt
from rbac.models import User

BACKEND_PATH = "accounts.authentication.adapters.UserBackend"
# A server that listens at a file knows no address.
UNKNOWN_ADDRESS = "0.0.0.0"  # noqa: S104


class SignInAdapter(DefaultAccountAdapter):
    """Adapter of the sign-in steps; the library sends no mail and shows no messages."""

    def get_login_stages(self) -> list[str]:
        return ["accounts.authentication.two_factor.SecondFactorStage"]

    def pre_login(self, request: HttpRequest, user: User, **_: Any) -> HttpResponse | None:
        if can_sign_in(user):
            return None
        audit.record_audit_entry(actor=None, action="user.sign_in_failed", thing=user)
        return render_sign_in_refusal(request, "This user cannot sign in. Ask an administrator.")

    def login(self, request: HttpRequest, user: User) -> None:
        login(request, user, BACKEND_PATH)

    def post_login(
        self, request: HttpRequest, user: User, *, redirect_url: str | None, **_: Any
    ) -> HttpResponse:
        begin_session(request)
        after = {"method": "passkey"} if did_use_passwordless_login(request, user) else None
        audit.record_audit_entry(actor=user, action="user.sign_in", thing=user, after=after)
        return HttpResponseRedirect(redirect_url or resolve_url("/"))

    def add_message(self, *_: Any, **__: Any) -> None:
        """Discard the library's message: our pages show their own."""

    def send_notification_mail(self, *_: Any, **__: Any) -> None:
        """Send nothing: the audit trail has it."""

    def get_client_ip(self, request: HttpRequest) -> str:
        # A proxy may forward any value; the table accepts addresses only.
        address = str(request.META.get("REMOTE_ADDR", "")).partition("%")[0]
        try:
            return str(ip_address(address))
        except ValueError:
            return UNKNOWN_ADDRESS


class TwoFactorAdapter(DefaultMFAAdapter):
    """Adapter that stores the data of second factors encrypted."""

    def encrypt(self, text: str) -> str:
        return encrypt(text, SECOND_FACTOR_CONTEXT)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text, SECOND_FACTOR_CONTEXT)

    def get_totp_issuer(self) -> str:
        return "Slipway"

    def get_totp_label(self, user: User) -> str:
        return user.username


def can_sign_in(user: User) -> bool:
    """Return whether the user is active and not a service account, which has API keys only."""
    return user.is_active and user.kind == User.Kind.PERSON


def render_sign_in_refusal(request: HttpRequest, sentence: str) -> HttpResponse:
    """Show why a sign-in ended."""
    return render(request, "accounts/sign_in_refused.html", {"sentence": sentence}, status=403)


class UserBackend(AuthenticationBackend):
    """Backend for user name and password, checked on each request, so that deactivation works at once."""

    def user_can_authenticate(self, user: AbstractBaseUser | None) -> bool:
        return isinstance(user, User) and can_sign_in(user)

    def _authenticate_by_username(self, username: str, password: str) -> AbstractBaseUser | None:
        # The library finds nobody if two names differ by case only: either of them would lock the other out.
        return self._check_password(User.objects.get_by_sign_in_name(username), password)
