"""Check that a change leaves an account administrator: nobody else could assign that role again."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final

from django.core.exceptions import ValidationError
from django.db.models import Q

from rbac.models import RoleAssignment, Scope, User
from rbac.policy.principals import build_validity_filter

ACCOUNT_ADMIN: Final = "account_admin"
NO_ADMINISTRATOR: Final = (
    "Nobody would have the role Account Admin in the account any more, or only until it expires. Assign it "
    "to another active user without an expiry first."
)


class AdministratorTerm(IntEnum):
    """How long the person has the role Account Admin who keeps it longest."""

    NONE = 0
    EXPIRING = 1
    LASTING = 2


@contextmanager
def keep_account_administrator() -> Iterator[None]:
    """Refuse a change that takes the role Account Admin from the last active person who has it.

    One without an expiry is not left to those whose role expires. Use it in the transaction of the change,
    and before other locks. Raises `ValidationError`.
    """
    # One change at a time: two administrators could remove each other.
    Scope.objects.filter(kind=Scope.Kind.ACCOUNT).lock()
    before = find_administrator_term()
    yield
    if find_administrator_term() < before:
        raise ValidationError(NO_ADMINISTRATOR, code="state")


def find_administrator_term() -> AdministratorTerm:
    """Return how long somebody active has the role for the whole account."""
    person = User.Kind.PERSON
    is_active = Q(user__is_active=True, user__kind=person)
    is_active |= Q(group__users__is_active=True, group__users__kind=person)
    assignments = RoleAssignment.objects.filter(
        is_active,
        build_validity_filter(),
        role__identifier=ACCOUNT_ADMIN,
        role__scope=None,
        scope__kind=Scope.Kind.ACCOUNT,
        resource_group=None,
    )
    ends = assignments.values_list("expires_at", flat=True)
    terms = (AdministratorTerm.LASTING if end is None else AdministratorTerm.EXPIRING for end in ends)
    return max(terms, default=AdministratorTerm.NONE)
