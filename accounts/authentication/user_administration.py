"""Disabling of users and reset of their second factor by administrators."""

from django.db import transaction

from accounts.authentication.sessions import end_all_sessions
from accounts.authentication.two_factor import disable_two_factor
from rbac import operations
from rbac.models import User
from rbac.operations.users import require_user_management


@transaction.atomic
def disable_user(*, actor: User, person: User) -> None:
    """Disable a user and end their sessions. Raises `Forbidden`, `ValidationError`."""
    operations.set_user_active(actor=actor, person=person, is_active=False)
    # Otherwise they would open again if the user is enabled later.
    end_all_sessions(person)


@transaction.atomic
def reset_two_factor(*, actor: User, person: User) -> None:
    """Remove the authenticator app and recovery codes of a user. Raises `Forbidden`, `ValidationError`."""
    require_user_management(actor, person)
    disable_two_factor(actor=actor, person=person)
