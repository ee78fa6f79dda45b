"""What the sign-in library asks of us at each step of a sign-in."""

from ipaddress import ip_address
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url

from accounts.people.sessions import begin_session
from rbac import audit
from rbac.encryption import SECOND_FACTOR, decrypt, encrypt
from rbac.models import User

BACKEND = "accounts.people.backend.PeopleBackend"
# A server that listens at a file knows no address.
NO_ADDRESS = "0.0.0.0"  # noqa: S104


class SignInAdapter(DefaultAccountAdapter):
    """Leads a sign-in through its steps; the library sends no mail and shows no message of its own."""

    def get_login_stages(self) -> list[str]:
        return ["accounts.people.two_factor.SecondStep"]

    def pre_login(self, request: HttpRequest, user: User, **_: Any) -> HttpResponse | None:
        if may_sign_in(user):
            return None
        audit.record(actor=None, action="user.sign_in_failed", thing=user)
        return refused(request, "This user may not sign in. Ask an administrator of Slipway.")

    def login(self, request: HttpRequest, user: User) -> None:
        login(request, user, BACKEND)

    def post_login(
        self, request: HttpRequest, user: User, *, redirect_url: str | None, **_: Any
    ) -> HttpResponse:
        begin_session(request)
        audit.record(actor=user, action="user.sign_in", thing=user)
        return HttpResponseRedirect(redirect_url or resolve_url("/"))

    def add_message(self, *_: Any, **__: Any) -> None:
        """Say nothing: our pages say it themselves."""

    def send_notification_mail(self, *_: Any, **__: Any) -> None:
        """Send nothing: the audit trail has it."""

    def get_client_ip(self, request: HttpRequest) -> str:
        # A proxy may hand on whatever it was sent; the table takes addresses only.
        given = str(request.META.get("REMOTE_ADDR", "")).partition("%")[0]
        try:
            return str(ip_address(given))
        except ValueError:
            return NO_ADDRESS


class TwoFactorAdapter(DefaultMFAAdapter):
    """Keeps what second factors are made of encrypted, as every secret of the database."""

    def encrypt(self, text: str) -> str:
        return encrypt(text, SECOND_FACTOR)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text, SECOND_FACTOR)

    def get_totp_issuer(self) -> str:
        return "Slipway"

    def get_totp_label(self, user: User) -> str:
        return user.username


def may_sign_in(user: User) -> bool:
    """Say whether this is a person whom nobody has locked out; service accounts have API keys only."""
    return user.is_active and user.kind == User.Kind.PERSON


def refused(request: HttpRequest, sentence: str) -> HttpResponse:
    """Show why a sign-in ended."""
    return render(request, "accounts/sign_in_refused.html", {"sentence": sentence}, status=403)
