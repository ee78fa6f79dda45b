"""Second factor and proof of identity: authenticator app codes (RFC 6238) and recovery codes."""

import base64
from io import BytesIO

import qrcode
from allauth.account.stages import LoginStage
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from qrcode.image.svg import SvgPathImage

from rbac import audit, usage_counts
from rbac.models import User
from rbac.operations.users import require_user_management
from web.http.problems import TooManyRequests

CODE_DIGITS = 6


class SecondFactorStage(LoginStage):
    """Sign-in stage that asks for a code after the first factor, also after single sign-on."""

    key = "second-step"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        return (redirect("second-step") if has_two_factor(self.login.user) else None), True


def has_two_factor(person: User) -> bool:
    """Return whether the user needs a code to sign in."""
    return Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP).exists()


def count_recovery_codes(person: User) -> int:
    """Return the number of unused recovery codes."""
    authenticator = Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES).first()
    return len(RecoveryCodes(authenticator).get_unused_codes()) if authenticator else 0


def create_encrypted_secret() -> str:
    """Return a new secret for an app, encrypted: it waits in the session until a first code proves it
    arrived.
    """
    return get_adapter().encrypt(generate_totp_secret())


def decrypt_secret(sealed: str) -> str:
    """Return the secret in the format that users type into an app."""
    return get_adapter().decrypt(sealed)


def render_qr_code(person: User, secret: str) -> str:
    """Return the secret as a QR code: an SVG in a data URL, for an `img`."""
    buffer = BytesIO()
    address = get_adapter().build_totp_url(person, secret)
    qrcode.make(address, image_factory=SvgPathImage, border=2).save(buffer)
    return f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"


@transaction.atomic
def enable_two_factor(*, actor: User, secret: str, code: str) -> list[str] | None:
    """Enable codes, and return the recovery codes; None if `code` does not match the secret."""
    counter = _find_counter(secret, code, after=-1)
    # The row is locked, for two windows may come at once.
    User.objects.select_for_update().get(pk=actor.pk)
    if counter is None or has_two_factor(actor):
        return None
    totp = TOTP.activate(actor, secret).instance
    totp.data["counter"] = counter
    totp.save(update_fields=["data"])
    audit.record_audit_entry(actor=actor, action="user.two_factor_on", thing=actor)
    return _generate_codes(actor)


@transaction.atomic
def disable_two_factor(*, actor: User | None, person: User) -> None:
    """Disable the second factor of `person`."""
    if Authenticator.objects.filter(user=person).delete()[0]:
        audit.record_audit_entry(actor=actor, action="user.two_factor_off", thing=person)


@transaction.atomic
def reset_two_factor(*, actor: User, person: User) -> None:
    """Remove the authenticator app and recovery codes of another user.

    Raises `Forbidden`, `ValidationError`.
    """
    require_user_management(actor, person)
    disable_two_factor(actor=actor, person=person)


@transaction.atomic
def renew_recovery_codes(*, actor: User) -> list[str]:
    """Replace the recovery codes; the new ones are shown once."""
    audit.record_audit_entry(actor=actor, action="user.recovery_codes_renew", thing=actor)
    return _generate_codes(actor)


@transaction.atomic
def accept_code(person: User, code: str) -> bool:
    """Return whether `code` is valid: an unused code of the app, or a recovery code.

    Each code works once: the row is locked during the check.
    """
    code = code.replace(" ", "")
    if len(code) == CODE_DIGITS:
        return _accept_totp(person, code)
    authenticator = Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES).first()
    if authenticator is None or not RecoveryCodes(authenticator).validate_code(code):
        return False
    audit.record_audit_entry(actor=person, action="user.recovery_code_use", thing=person)
    return True


def _accept_totp(person: User, code: str) -> bool:
    rows = Authenticator.objects.select_for_update()
    totp = rows.filter(user=person, type=Authenticator.Type.TOTP).first()
    if totp is None:
        return False
    counter = _find_counter(decrypt_secret(totp.data["secret"]), code, after=totp.data.get("counter", -1))
    if counter is None:
        return False
    totp.data["counter"], totp.last_used_at = counter, timezone.now()
    totp.save(update_fields=["data", "last_used_at"])
    return True


def _find_counter(secret: str, code: str, *, after: int) -> int | None:
    """Return the half minute that `code` belongs to, if it is later than `after` (RFC 6238, section 5.2)."""
    counters = (
        counter
        for counter in yield_hotp_counters_from_time()
        if counter > after
        and compare_user_code(actual=code, expected=format_hotp_value(hotp_value(secret, counter)))
    )
    return next(counters, None)


def _generate_codes(person: User) -> list[str]:
    Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES).delete()
    return RecoveryCodes.activate(person).generate_codes()


def verify_identity(person: User, proof: str, *, address: str) -> bool:
    """Return whether `proof` is the user's password, or a code if the user has no password.

    Failures count as failed sign-ins. Raises `TooManyRequests`.
    """
    if not person.has_usable_password():
        return verify_code(person, proof, address=address)
    account = f"proof of {person.pk}"
    _require_attempt(account, address)
    if not person.check_password(proof):
        return False
    usage_counts.reset_attempts(account=account, address=address)
    return True


def verify_code(person: User, code: str, *, address: str) -> bool:
    """Return whether `code` is valid for the user's second factor.

    Failures are counted. Raises `TooManyRequests`.
    """
    account = f"code of {person.pk}"
    _require_attempt(account, address)
    if not accept_code(person, code):
        audit.record_audit_entry(actor=None, action="user.code_failed", thing=person)
        return False
    usage_counts.reset_attempts(account=account, address=address)
    return True


def _require_attempt(account: str, address: str) -> None:
    if not usage_counts.count_attempt(account=account, address=address):
        raise TooManyRequests("Too many failed attempts. Wait a few minutes, then try again.")
