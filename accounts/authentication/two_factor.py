"""Second factors and proof of identity: authenticator app codes (RFC 6238) and recovery codes."""

import base64
from dataclasses import dataclass
from io import BytesIO

import qrcode
from allauth.account.internal.stagekit import clear_login
from allauth.account.stages import LoginStage, LoginStageController
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
from allauth.mfa.webauthn.internal.flows import did_use_passwordless_login
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from qrcode.image.svg import SvgPathImage

from accounts.authentication.adapters import can_sign_in
from accounts.authentication.sign_in_methods import PASSKEYS_ONLY, signs_in_with_passkeys_only
from rbac import audit, usage_counts
from rbac.models import User
from rbac.operations.users import require_user_management
from web.http.problems import TooManyRequests

CODE_DIGITS = 6
# Each makes the sign-in ask for one more proof; recovery codes replace a lost one.
SECOND_FACTOR_TYPES = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
# Hash of the password of the first step, as in a session.
CREDENTIAL_KEY = "credential"


class SecondFactorStage(LoginStage):
    """Sign-in stage that asks for a second factor after the first, also after single sign-on.

    A passkey alone is both: a device, and its PIN, finger or face.
    """

    key = "second-step"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        user = self.login.user
        is_needed = has_two_factor(user) and not did_use_passwordless_login(self.request, user)
        self.state[CREDENTIAL_KEY] = user.get_session_auth_hash()
        return (redirect("second-step") if is_needed else None), True

    @property
    def is_current(self) -> bool:
        """Return whether the first step still counts: a disabled user or a new password ends it."""
        user, proved = self.login.user, self.state.get(CREDENTIAL_KEY, "")
        return (
            isinstance(user, User)
            and can_sign_in(user)
            and constant_time_compare(user.get_session_auth_hash(), proved)
        )


def enter_second_step(request: HttpRequest) -> SecondFactorStage | None:
    """Return the sign-in that waits for its second step, or None; one that is not current any more ends."""
    stage: SecondFactorStage | None = LoginStageController.enter(request, SecondFactorStage.key)
    if stage is not None and not stage.is_current:
        clear_login(request)
        return None
    return stage


def has_two_factor(person: User) -> bool:
    """Return whether the user needs an authenticator app or a passkey to sign in."""
    return Authenticator.objects.filter(user=person, type__in=SECOND_FACTOR_TYPES).exists()


def has_authenticator_app(person: User) -> bool:
    """Return whether the user has an authenticator app."""
    return Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP).exists()


@dataclass(frozen=True)
class FactorSummary:
    """Second factors of a user."""

    has_app: bool
    passkeys: int
    codes_left: int

    @property
    def is_on(self) -> bool:
        return self.has_app or self.passkeys > 0


def summarize_factors(person: User) -> FactorSummary:
    """Return the second factors of a user and the number of unused recovery codes."""
    types = list(Authenticator.objects.filter(user=person).values_list("type", flat=True))
    return FactorSummary(
        has_app=Authenticator.Type.TOTP in types,
        passkeys=types.count(Authenticator.Type.WEBAUTHN),
        codes_left=count_recovery_codes(person),
    )


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
    if counter is None or has_authenticator_app(actor):
        return None
    is_first_factor = not has_two_factor(actor)
    totp = TOTP.activate(actor, secret).instance
    totp.data["counter"] = counter
    totp.save(update_fields=["data"])
    audit.record_audit_entry(actor=actor, action="user.authenticator_app_add", thing=actor)
    if is_first_factor:
        audit.record_audit_entry(actor=actor, action="user.two_factor_on", thing=actor)
    return ensure_recovery_codes(actor)


@transaction.atomic
def remove_authenticator_app(*, actor: User) -> None:
    """Remove the app of `actor`; the last second factor takes the recovery codes along."""
    # The row is locked, for a passkey may come at the same time.
    User.objects.select_for_update().get(pk=actor.pk)
    if Authenticator.objects.filter(user=actor, type=Authenticator.Type.TOTP).delete()[0]:
        audit.record_audit_entry(actor=actor, action="user.authenticator_app_remove", thing=actor)
        remove_unneeded_recovery_codes(actor)


@transaction.atomic
def disable_two_factor(*, actor: User | None, person: User) -> None:
    """Remove all second factors of `person`. Raises `ValidationError` if they are the only way to sign in."""
    # The row is locked, for the user may unlink single sign-on at the same time.
    if signs_in_with_passkeys_only(User.objects.select_for_update().get(pk=person.pk)):
        raise ValidationError(PASSKEYS_ONLY, code="state")
    rows = Authenticator.objects.filter(user=person)
    passkeys = rows.filter(type=Authenticator.Type.WEBAUTHN).order_by("pk")
    before = {
        "authenticator_app": has_authenticator_app(person),
        "passkeys": [row.data.get("name", "") for row in passkeys],
    }
    if rows.delete()[0]:
        audit.record_audit_entry(actor=actor, action="user.two_factor_off", thing=person, before=before)


@transaction.atomic
def reset_two_factor(*, actor: User, person: User) -> None:
    """Remove the authenticator app, passkeys and recovery codes of another user.

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


def ensure_recovery_codes(person: User) -> list[str]:
    """Return new recovery codes if there are no unused ones; they are shown once."""
    return [] if count_recovery_codes(person) else _generate_codes(person)


def remove_unneeded_recovery_codes(person: User) -> None:
    """Remove recovery codes that replace no second factor any more."""
    if not has_two_factor(person):
        Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES).delete()
        audit.record_audit_entry(actor=person, action="user.two_factor_off", thing=person)


def _generate_codes(person: User) -> list[str]:
    Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES).delete()
    return RecoveryCodes.activate(person).generate_codes()


def verify_identity(person: User, proof: str, *, address: str) -> bool:
    """Return whether `proof` is the user's password, or a code if the user has no password.

    Failures count as failed sign-ins. Raises `TooManyRequests`.
    """
    if not person.has_usable_password():
        return verify_code(person, proof, address=address)
    _require_attempt("proof", person, address)
    if not person.check_password(proof):
        return False
    usage_counts.reset_attempts(kind="proof", account=str(person.pk), address=address)
    return True


def verify_code(person: User, code: str, *, address: str) -> bool:
    """Return whether `code` is valid for the user's second factor.

    Failures are counted. Raises `TooManyRequests`.
    """
    count_code_attempt(person, address)
    if not accept_code(person, code):
        audit.record_audit_entry(actor=None, action="user.code_failed", thing=person)
        return False
    reset_code_attempts(person, address)
    return True


def count_code_attempt(person: User, address: str) -> None:
    """Count an attempt with a code or passkey of `person` in advance. Raises `TooManyRequests`."""
    _require_attempt("code", person, address)


def reset_code_attempts(person: User, address: str) -> None:
    """Reset the counter after a successful attempt."""
    usage_counts.reset_attempts(kind="code", account=str(person.pk), address=address)


def _require_attempt(kind: str, person: User, address: str) -> None:
    if not usage_counts.count_attempt(kind=kind, account=str(person.pk), address=address):
        raise TooManyRequests("Too many failed attempts. Wait a few minutes, then try again.")
