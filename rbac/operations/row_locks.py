"""Locks of rows that several people change or delete at once."""

from typing import TypeVar

from django.db.models import Model

from rbac.models import ResourceGroup, Role, ServiceAccount, User, UserGroup
from rbac.policy import NotVisible

Row = TypeVar("Row", bound=Model)


def lock_row(row: Row) -> Row:
    """Return the stored row, locked until the transaction ends: a second change waits for the first.

    Raises `NotVisible` if it was deleted meanwhile.
    """
    stored: Row | None = type(row)._default_manager.select_for_update().filter(pk=row.pk).first()
    if stored is None:
        raise NotVisible(f"Somebody deleted {row} meanwhile.")
    return stored


def lock_granted(
    role: Role,
    group: UserGroup | None = None,
    resource_group: ResourceGroup | None = None,
    user: User | None = None,
) -> None:
    """Lock what a new assignment or invitation refers to, so that it is not deleted at the same time.

    Nobody can delete built-in roles and people. Raises `NotVisible` for one that was deleted meanwhile.
    """
    if not role.builtin:
        lock_row(role)
    for row in (group, resource_group):
        if row is not None:
            lock_row(row)
    if user is not None and user.kind == User.Kind.SERVICE_ACCOUNT:
        _lock_service_account(user)


def _lock_service_account(user: User) -> None:
    # The user of a deleted service account stays, for the trail.
    if ServiceAccount.objects.select_for_update().filter(user=user).first() is None:
        raise NotVisible(f"Somebody deleted {user} meanwhile.")
