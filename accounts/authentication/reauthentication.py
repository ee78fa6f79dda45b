"""Reauthentication by password or code before sensitive changes."""

from accounts.authentication.two_factor import accept_code
from rbac import audit, sign_in_limits
from rbac.models import User
from web.http.problems import TooManyRequests


def verify_identity(person: User, given: str, *, address: str) -> bool:
    """Say whether `given` is the person's password, or a code where there is no password.

    Failures are counted, as those of signing in. Raises `TooManyRequests`.
    """
    if not person.has_usable_password():
        return verify_code(person, given, address=address)
    account = f"proof of {person.pk}"
    _require_attempt(account, address)
    if not person.check_password(given):
        return False
    sign_in_limits.reset_attempts(account=account, address=address)
    return True


def verify_code(person: User, code: str, *, address: str) -> bool:
    """Say whether `code` is one of the person's second factor.

    Failures are counted. Raises `TooManyRequests`.
    """
    account = f"code of {person.pk}"
    _require_attempt(account, address)
    if not accept_code(person, code):
        audit.record_audit_entry(actor=None, action="user.code_failed", thing=person)
        return False
    sign_in_limits.reset_attempts(account=account, address=address)
    return True


def _require_attempt(account: str, address: str) -> None:
    if not sign_in_limits.count_attempt(account=account, address=address):
        raise TooManyRequests("Too many failed attempts. Wait a few minutes, then try again.")
