"""Password change, and password reset by e-mail."""

from urllib.parse import urljoin

from django.conf import settings
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import send_mail
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from accounts.authentication.sessions import end_all_sessions
from guards.limits import RESETS_PER_ACCOUNT
from rbac import audit, usage_counts
from rbac.models import User


@transaction.atomic
def change_password(*, actor: User, password: str) -> None:
    """Set a new password for `actor`, whose old password was verified.

    All sessions end except the one that the caller keeps with `keep_session`.
    """
    actor.set_password(password)
    actor.save(update_fields=["password"])
    end_all_sessions(actor)
    audit.record_audit_entry(actor=actor, action="user.password_change", thing=actor)


@transaction.atomic
def reset_password(*, person: User, password: str) -> None:
    """Set a new password for `person`, who followed a link from an e-mail, and end all their sessions."""
    person.set_password(password)
    person.save(update_fields=["password"])
    end_all_sessions(person)
    audit.record_audit_entry(actor=person, action="user.password_reset", thing=person)


def send_reset_mail(email: str) -> None:
    """Send an e-mail to all users with this address and a password; the caller cannot detect a match."""
    if not usage_counts.is_within_limit("reset", email, at_most=RESETS_PER_ACCOUNT, seconds=3600):
        return
    for person in User.objects.filter(email__iexact=email, is_active=True, kind=User.Kind.PERSON)[:5]:
        if person.has_usable_password():
            _send_mail(person)


def get_user_by_reset_link(number: str, token: str) -> User | None:
    """Return the user of a reset link, or None if the link is invalid."""
    try:
        pk = int(urlsafe_base64_decode(number).decode())
    except (ValueError, OverflowError):
        return None
    person = User.objects.filter(pk=pk, is_active=True, kind=User.Kind.PERSON).first() if pk < 2**63 else None
    return person if person and default_token_generator.check_token(person, token) else None


def _send_mail(person: User) -> None:
    number, token = urlsafe_base64_encode(force_bytes(person.pk)), default_token_generator.make_token(person)
    path = reverse("new-password-link", kwargs={"number": number, "token": token})
    minutes = settings.PASSWORD_RESET_TIMEOUT // 60
    content = {"person": person, "link": urljoin(settings.PUBLIC_URL, path), "minutes": minutes}
    # Own words for the one recipient only: a name cannot become a header.
    send_mail(
        "Reset your Slipway password",
        render_to_string("accounts/mail/reset.txt", content),
        None,
        [person.email],
    )
    audit.record_audit_entry(actor=None, action="user.password_reset_sent", thing=person)
