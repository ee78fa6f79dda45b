"""Whether who sits at the browser is the person: asked again before what would lock that person out."""

from accounts.people.two_factor import accept_code
from rbac import audit, throttle
from rbac.models import User
from web.problems import TooMany


def is_proof(person: User, given: str, *, address: str) -> bool:
    """Say whether `given` is the person's password, or a code where there is no password.

    Failures are counted, as those of signing in. Raises `TooMany`.
    """
    if not person.has_usable_password():
        return is_code(person, given, address=address)
    account = f"proof of {person.pk}"
    _admit(account, address)
    if not person.check_password(given):
        return False
    throttle.forgive(account=account, address=address)
    return True


def is_code(person: User, code: str, *, address: str) -> bool:
    """Say whether `code` is one of the person's second factor. Failures are counted. Raises `TooMany`."""
    account = f"code of {person.pk}"
    _admit(account, address)
    if not accept_code(person, code):
        audit.record(actor=None, action="user.code_failed", thing=person)
        return False
    throttle.forgive(account=account, address=address)
    return True


def _admit(account: str, address: str) -> None:
    if not throttle.admit(account=account, address=address):
        raise TooMany("Too many failures. Wait some minutes, then try again.")
